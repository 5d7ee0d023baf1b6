"""Blocks of a data set that grows, in the ledger of a folder and at a coordinator."""

import datetime
import json
import subprocess

import numpy as np
import pytest
from conftest import BINARY, DIMENSION
from test_sweep import DELTA, cost

import rustle
from rustle import errors
from rustle.sampling import CyclicPoisson

NOV = {"start": "2026-11-01", "until": datetime.date(2026, 12, 1)}
DEC = {"start": "2026-12-01", "until": "2027-01-01"}


@pytest.fixture
def run_folder(tmp_path, plan):
    """A folder with a plan, whose ledger begins with its first data set."""
    folder = tmp_path / "own"
    folder.mkdir()
    plan.save(folder / "plan.toml")
    return folder


def data_set(folder, unit="user", **words):
    return rustle.DataSet(f"inproc://{folder}", "mails", unit=unit, epsilon=400, delta=DELTA, **words)


def shown(mails, block):
    return next(line for line in mails.show()["blocks"] if line["block"] == block)


def charged(mails, block):
    line = shown(mails, block)
    return line["spent"]["epsilon"] + line["reserved"]["epsilon"]


def test_a_job_of_a_folder_is_charged_in_the_blocks_that_it_names(run_folder, plan):
    together = cost(plan)
    mails = data_set(run_folder)
    mails.add_block("nov", **NOV, epsilon=together(2) + 0.01, delta=DELTA)
    mails.add_block("dec", **DEC)
    url = f"inproc://{run_folder}?job="
    with rustle.connect(url + "a", data_set=mails, blocks=["nov"]) as session:
        session.fetch_into(0, np.empty(DIMENSION, np.float32))
    assert charged(mails, "nov") == pytest.approx(together(1), rel=1e-6) and charged(mails, "dec") == 0
    # Of one job and another that counts four times, as a user may have mails in both months, only the first fits.
    with pytest.raises(errors.BudgetExceeded, match="block nov of data set mails") as refused:
        rustle.connect(url + "b", data_set=mails, blocks=["nov", "dec"])
    assert refused.value.fields["block"] == "nov"
    assert float(refused.value.fields["total"]) == pytest.approx(together(5), rel=1e-4)
    with rustle.connect(url + "b", data_set=mails, blocks=("nov",)):
        pass
    with pytest.raises(errors.BudgetExceeded):
        rustle.connect(url + "c", data_set=mails, blocks=["nov"])
    # A rewind is charged in each of the job's blocks.
    with rustle.connect(url + "a", data_set=mails, blocks=["nov"]) as session:
        with pytest.raises(errors.BudgetExceeded, match="block nov"):
            session.restart()
    with rustle.connect(url + "d", data_set=mails, blocks=["dec"]):
        pass
    assert [job["blocks"] for job in mails.show()["jobs"]] == [["nov"], ["nov"], ["dec"]]
    assert "2026-11-01" in mails.report(format="markdown")


def test_blocks_that_can_not_be_are_refused_and_reserve_nothing(run_folder):
    mails = data_set(run_folder)
    connect = lambda name, **words: rustle.connect(f"inproc://{run_folder}?job={name}", data_set=mails, **words)  # noqa: E731
    with pytest.raises(errors.InvalidArgument, match="has no blocks"):
        connect("a", blocks=["nov"])
    mails.add_block("nov", **NOV, epsilon=300, delta=DELTA)
    mails.add_block("nov", **NOV)
    with pytest.raises(errors.AlreadyExists, match="until 2026-12-01"):
        mails.add_block("nov", start="2026-11-01", until="2026-12-02")
    for words, why in [
        ({"start": "2026-11-30", "until": "2026-12-02"}, "block nov of data set mails"),
        ({"start": "2026-12-31", "until": "2026-12-31"}, "until is 2026-12-31"),
        ({"start": "31.12.2026", "until": "2027-01-02"}, "such as 2026-11-01"),
        ({"start": datetime.datetime(2026, 12, 31, 5), "until": "2027-01-02"}, "datetime.date"),
        ({**DEC, "epsilon": 1}, "both, or neither"),
        ({**DEC, "epsilon": 401, "delta": DELTA}, "at most 400"),
    ]:
        with pytest.raises(errors.InvalidArgument, match=why):
            mails.add_block("dec", **words)
    for words, why in [
        ({}, "account.blocks is missing"),
        ({"blocks": []}, "account.blocks is missing"),
        ({"blocks": "nov"}, "a list of names"),
        ({"blocks": ["nov", "nov"]}, "nov twice"),
        ({"blocks": ["no/v"]}, "no/v"),
    ]:
        with pytest.raises(errors.InvalidArgument, match=why):
            connect("a", **words)
    with pytest.raises(errors.NotFound, match="dec in data set mails"):
        connect("a", blocks=["dec"])
    with pytest.raises(errors.InvalidArgument, match="without a data_set"):
        rustle.connect(f"inproc://{run_folder}?job=a", blocks=["nov"])
    assert mails.show()["jobs"] == [] and [line["block"] for line in mails.show()["blocks"]] == ["nov"]
    with connect("a", blocks=["nov"]):
        pass
    mails.add_block("dec", **DEC)
    with pytest.raises(errors.AlreadyExists, match="blocks are nov, requested dec"):
        connect("a", blocks=["dec"])


def test_jobs_from_before_the_first_block_are_charged_in_all(run_folder, plan):
    together = cost(plan)
    mails = data_set(run_folder)
    with rustle.connect(f"inproc://{run_folder}?job=a", data_set=mails):
        pass
    with pytest.raises(errors.InvalidArgument, match="charged in every block"):
        mails.add_block("nov", **NOV, epsilon=together(1) + 0.01, delta=DELTA)
    mails.add_block("nov", **NOV)
    assert charged(mails, "nov") == pytest.approx(together(4), rel=1e-6)
    with rustle.connect(f"inproc://{run_folder}?job=a", data_set=mails):
        pass


def test_a_budget_of_each_block_of_examples(run_folder, plan):
    together = cost(plan)
    mails = data_set(run_folder, unit="example", per_block=True)
    with pytest.raises(errors.InvalidArgument, match="none yet"):
        rustle.connect(f"inproc://{run_folder}?job=a", data_set=mails)
    mails.add_block("nov", **NOV)
    mails.add_block("dec", **DEC)
    for name, blocks in [("a", ["nov"]), ("b", ["nov", "dec"]), ("c", ["dec"]), ("d", ["nov"])]:
        with rustle.connect(f"inproc://{run_folder}?job={name}", data_set=mails, blocks=blocks):
            pass
    assert charged(mails, "nov") == pytest.approx(together(3), rel=1e-6)
    assert charged(mails, "dec") == pytest.approx(together(2), rel=1e-6)
    found = mails.show()
    assert found["reserved"]["epsilon"] == pytest.approx(together(3), rel=1e-6)
    assert found["all_blocks"]["epsilon"] == pytest.approx(together(4), rel=1e-6)
    with pytest.raises(errors.AlreadyExists):
        data_set(run_folder, unit="example")
    with pytest.raises(errors.InvalidArgument, match="without blocks"):
        rustle.Sweep(mails, "rates", plan=plan, mean=3, space={"rate": [1, 2]})


def test_a_sampled_job_of_several_blocks(run_folder):
    mails = data_set(run_folder)
    mails.add_block("nov", **NOV)
    mails.add_block("dec", **DEC)
    words = {"data_set": mails, "batches": CyclicPoisson(0.01)}
    with rustle.connect(f"inproc://{run_folder}?job=a", blocks=["nov"], **words):
        pass
    alone = charged(mails, "nov")
    with rustle.connect(f"inproc://{run_folder}?job=b", blocks=["dec", "nov"], **words):
        pass
    assert charged(mails, "dec") > alone > 0


def test_a_coordinators_job_has_the_blocks_that_it_was_created_with(cluster, folder, run_folder, plan):
    def run(*words):
        command = [str(BINARY), "--format", "json", *map(str, words), "--coordinator", cluster.answer["coordinator"]]
        done = subprocess.run(command, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    run("budget", "create", "mails", "--unit", "user", "--epsilon", "400", "--delta", DELTA)
    run("budget", "block", "add", "mails", "nov", "--from", "2026-11-01", "--until", "2026-12-01")
    words = ["--plan", folder / "plan.toml", "--dimension", DIMENSION, "--key-file", folder / "job.key"]
    run("job", "create", "--job", "of-nov", "--data-set", "mails", "--blocks", "nov", *words)
    url = cluster.url() + "&job=of-nov"
    with pytest.raises(errors.InvalidArgument, match="rustle job create"):
        rustle.connect(url, data_set=data_set(run_folder), blocks=["nov"])
    with pytest.raises(errors.InvalidArgument, match="without a data_set"):
        rustle.connect(url, blocks=["nov"])
    with rustle.connect(url) as session:
        session.fetch_into(0, np.empty(DIMENSION, np.float32))
    found = run("budget", "show", "mails")
    assert found["blocks"][0]["spent"]["epsilon"] == pytest.approx(cost(plan)(1), rel=1e-6)
    assert found["jobs"][0]["blocks"] == ["nov"]
