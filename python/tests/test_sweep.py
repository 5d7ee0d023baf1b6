"""One budget for the jobs of a folder, and for the best of a random number of them."""

import json
import math
import os
import re
import subprocess

import numpy as np
import pytest
from conftest import DIMENSION, STEPS
from test_examples import ran

import rustle
import rustle.metrics
from rustle import errors
from rustle.sampling import CyclicPoisson

DELTA = 1e-5


def data_set(folder, epsilon):
    return rustle.DataSet(f"inproc://{folder}", "mails", unit="user", epsilon=epsilon, delta=DELTA)


def cost(plan):
    """ε of jobs of the plan together; each alone has 4."""
    return lambda count: rustle.epsilon(
        {"kind": "self-composed", "event": rustle.event(plan), "count": count}, delta=DELTA
    )


def through(session):
    """Takes all rows."""
    return np.array([session.fetch_into(step, np.empty(DIMENSION, np.float32)) for step in range(STEPS)])


def test_jobs_of_a_folder_share_the_budget_of_their_data_set(tmp_path, plan):
    folder = tmp_path / "run"
    together = cost(plan)
    mails = data_set(folder, together(2) + 0.01)
    plan.save(folder / "plan.toml")
    url = f"inproc://{folder}?job="
    with rustle.connect(url + "a", data_set=mails) as session:
        through(session)
    with rustle.connect(url + "b", data_set=mails):
        pass
    shown = mails.show()
    assert shown["spent"]["epsilon"] == pytest.approx(together(1), rel=1e-6)
    assert shown["spent"]["epsilon"] + shown["reserved"]["epsilon"] == pytest.approx(together(2), rel=1e-6)
    assert [job["state"] for job in shown["jobs"]] == ["spent", "reserved"]

    with pytest.raises(errors.BudgetExceeded) as refused:
        rustle.connect(url + "c", data_set=mails)
    assert float(refused.value.fields["total"]) == pytest.approx(together(3), rel=1e-4)
    # A rewind costs what it leaves behind.
    with rustle.connect(url + "a", data_set=mails) as session:
        with pytest.raises(errors.BudgetExceeded):
            session.restart()
    mails.grant(epsilon=40, delta=DELTA)
    with rustle.connect(url + "a", data_set=mails) as session:
        session.restart()
    with pytest.raises(errors.InvalidArgument, match="at least"):
        mails.grant(epsilon=4, delta=DELTA)
    text = mails.report(tmp_path / "budget.html")
    assert shown["head"] not in text and mails.show()["head"] in text and "Signed" in text


def test_what_is_no_account_of_the_data_set_is_refused(tmp_path, plan):
    folder = tmp_path / "run"
    mails = data_set(folder, 100)
    plan.save(folder / "plan.toml")
    with pytest.raises(errors.AlreadyExists, match="unit is user"):
        rustle.DataSet(f"inproc://{folder}", "mails", unit="example", epsilon=100, delta=DELTA)
    other = rustle.DataSet(f"inproc://{tmp_path / 'other'}", "mails", unit="user", epsilon=100, delta=DELTA)
    for words, why in [
        ({"data_set": other}, "one of the job's folder"),
        ({"data_set": mails, "batches": ("any",)}, "CyclicPoisson"),
        ({"batches": CyclicPoisson(0.1)}, "without a data_set"),
    ]:
        with pytest.raises(errors.InvalidArgument, match=why):
            rustle.connect(f"inproc://{folder}?job=a", **words)
    with pytest.raises(errors.InvalidArgument, match="rustle job create"):
        rustle.connect("grpc://127.0.0.1:1?job=a", data_set=mails)
    with pytest.raises(errors.InvalidArgument, match="rustle budget create"):
        rustle.DataSet("grpc://127.0.0.1:1", "mails", unit="user", epsilon=1, delta=DELTA)
    assert mails.show()["jobs"] == []
    with rustle.connect(f"inproc://{folder}?job=a", data_set=mails, batches=CyclicPoisson(0.01)):
        assert mails.name == "mails"
    with pytest.raises(errors.AlreadyExists, match="data set is mails"):
        rustle.connect(f"inproc://{folder}?job=a")


def test_a_sweep_costs_the_selection_however_many_runs_were_drawn(tmp_path, plan):
    mails = data_set(tmp_path / "run", 30)
    words = {"plan": plan, "mean": 3, "shape": 1.0, "space": {"rate": [1, 2, 3]}}
    sweep = rustle.Sweep(mails, "rates", **words)
    spent = mails.show()["spent"]["epsilon"]
    assert spent == pytest.approx(sweep.costs(DELTA)["epsilon"], rel=1e-9)
    with pytest.raises(errors.InvalidArgument, match="runs have started"):
        sweep.best()
    assert (tmp_path / "run" / ".gitignore").read_text().endswith("\n*\n")
    seen, noise = [], []
    for run in sweep:
        chosen = run.parameters
        # Opened again, a sweep is the same: the run keeps what it drew.
        again = rustle.Sweep(mails, "rates", **words)
        assert again.next().parameters == chosen and chosen["rate"] in (1, 2, 3)
        with run.connect(plan=plan.replace(clip_norm=1.0)) as session:
            noise.append(through(session))
        run.score = seen.append(-run.number) or -run.number
        with pytest.raises(errors.AlreadyExists, match="one score"):
            run.score = 5
    assert sweep.next() is None and sweep.best().number == 1
    best = sweep.best().job
    assert re.fullmatch("rates[.][0-9a-f]{8}", best) and len({sweep.run(i + 1).job for i in range(len(seen))}) == len(seen)
    assert len({row.tobytes() for row in noise}) == len(seen) >= 1
    assert mails.show()["spent"]["epsilon"] == spent
    for format in ("markdown", "html", "json"):
        assert "rates" in mails.report(format=format) and "rates." not in mails.report(format=format)
    shown = mails.show()
    assert [job["state"] for job in shown["jobs"]] == ["sweep"] and shown["entries"] is None
    with pytest.raises(errors.InvalidArgument, match=f"allowed: 1 to {len(seen)}$"):
        sweep.run(len(seen) + 1)
    extra = rustle.SweepRun(sweep, len(seen) + 1)
    with pytest.raises(errors.NotFound, match="is unknown"):
        extra.connect()
    sweep._file.edit(lambda runs: runs.update({str(extra.number): sweep._begun(runs)}))
    with pytest.raises(errors.InvalidArgument, match="have started"):
        extra.connect()
    with pytest.raises(errors.AlreadyExists, match="space"):
        rustle.Sweep(mails, "rates", **{**words, "space": {"rate": [9]}})
    mode = os.stat(tmp_path / "run" / "rates.sweep.json").st_mode & 0o777
    assert mode == 0o600


def test_runs_on_a_grid_leave_room_for_failures_in_the_charge_of_their_sweep(tmp_path):
    plan = rustle.plan(
        iterations=STEPS,
        epsilon=4,
        delta=DELTA,
        min_sep=4,
        max_participations=3,
        mechanism="band-mf",
        size=4,
        clip_norm=2.0,
        dimension=DIMENSION,
        batch_size=32,
    )
    mails = data_set(tmp_path / "run", 30)
    sweep = rustle.Sweep(mails, "rates", plan=plan, mean=2, shape=0.0)
    spent = mails.show()["spent"]["epsilon"]
    run = rustle.event(plan)
    assert 0 < run["failure_probability"] <= 1e-16
    # With failures as large as can be seen in ε, and without any.
    of_run = [{**run, "failure_probability": failure} for failure in (0.0, 1e-8)]
    least, more = (
        rustle.epsilon({"kind": "repeat-and-select", "event": event, "mean": 2, "shape": 0.0}, delta=DELTA)
        for event in of_run
    )
    assert least <= spent == pytest.approx(least, rel=1e-9) and more > least * 1.001
    for run in sweep:
        with run.connect(plan=plan.replace(clip_norm=0.5)) as session:
            for step in range(STEPS):
                total = np.zeros(DIMENSION, np.float32)
                session.privatize_(total, step)
                steps = total / 2.0 ** session.plan.grid["step"]
                assert np.abs(total).max() > 0 and np.array_equal(steps, np.rint(steps))
        run.score = 0.5
    assert sweep.best() is not None


def test_runs_are_of_the_event_that_was_charged_and_do_not_rewind(tmp_path, plan):
    mails = data_set(tmp_path / "run", 10)
    sweep = rustle.Sweep(mails, "rates", plan=plan, mean=2, shape=0.0)
    run = sweep.next()
    with pytest.raises(errors.InvalidArgument, match="as sweep rates has"):
        run.connect(plan=plan.replace(noise_multiplier=plan.noise_multiplier / 2))
    with run.connect() as session:
        session.fetch_into(0, np.empty(DIMENSION, np.float32))
        with pytest.raises(errors.RustleError, match="a run of sweep rates"):
            session.restart()
    with pytest.raises(errors.InvalidArgument, match="NaN"):
        run.score = math.nan
    with pytest.raises(errors.BudgetExceeded):
        rustle.Sweep(mails, "more", plan=plan, mean=1000, shape=1.0)


def test_a_run_states_no_epsilon_and_names_that_of_its_sweep(tmp_path, plan):
    mails = data_set(tmp_path / "run", 30)
    sweep = rustle.Sweep(mails, "rates", plan=plan, mean=2, shape=0.0)
    of_sweep, of_run = sweep.costs(DELTA)["epsilon"], rustle.epsilon(rustle.event(plan), delta=DELTA)
    assert of_sweep > of_run
    with sweep.next().connect() as session:
        for format in ("markdown", "html", "json"):
            with pytest.raises(errors.InvalidArgument, match="a run of sweep rates.*DataSet.report") as refused:
                session.report(tmp_path / "report", delta=[DELTA, 1e-6], format=format)
        stated = float(re.search(r"([0-9.]+) at δ", str(refused.value)).group(1))
        assert of_sweep <= stated <= of_sweep + 2e-5
        with pytest.raises(errors.InvalidArgument, match="a run of sweep rates"):
            rustle.metrics.Metrics(session, delta=DELTA).figures()
        assert not (tmp_path / "report").exists()
        # The job's own report names the sweep and what it is charged for.
        named = json.loads(session._native.report())["sweep"]
        assert named["sweep"] == "rates" and json.loads(named["charge"])["kind"] == "repeat-and-select"


def test_the_best_is_taken_of_runs_that_are_all_done(tmp_path, plan):
    """No one starts all runs, trains them one by one and stops when pleased."""
    sweep = rustle.Sweep(data_set(tmp_path / "run", 30), "rates", plan=plan, mean=3, shape=1.0)
    runs = []
    for run in sweep:
        with pytest.raises(errors.InvalidArgument, match="was not connected"):
            run.abandon()
        run.connect().close()
        runs.append(run)
    first = runs[0]
    with pytest.raises(errors.InvalidArgument, match=f"{first.job} has no score"):
        sweep.best()
    first.score = 1.0
    for run in runs[1:]:
        run.abandon()
        with pytest.raises(errors.AlreadyExists, match="is abandoned"):
            run.score = 2.0
    with pytest.raises(errors.InvalidArgument, match=f"{first.job} has a score, and 0 of {STEPS} rows"):
        sweep.best()
    with first.connect() as session:
        through(session)
    assert sweep.best().job == first.job
    with pytest.raises(errors.InvalidArgument, match="has the score"):
        first.abandon()


def test_a_run_that_its_file_lacks_is_not_drawn_anew(tmp_path, plan):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "train.py").touch()
    mails = data_set(folder, 30)
    words = {"plan": plan, "mean": 2, "shape": 0.0, "space": {"rate": [1, 2, 3]}}
    sweep = rustle.Sweep(mails, "rates", **words)
    run = sweep.next()
    run.connect().close()
    chosen = run.parameters
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
    listed = subprocess.check_output(["git", "-C", folder, "ls-files"], text=True).split()
    assert listed == [".gitignore", "train.py"]
    kept = (folder / "rates.sweep.json").read_text()
    (folder / "rates.sweep.json").unlink()
    for again in (lambda: sweep.run(1), lambda: rustle.Sweep(mails, "rates", **words)):
        with pytest.raises(errors.NotFound, match="lacks 1 of the runs"):
            again()
    with pytest.raises(errors.NotFound, match="is unknown"):
        run.connect()
    (folder / "rates.sweep.json").write_text(kept)
    assert rustle.Sweep(mails, "rates", **words).run(1).parameters == chosen


@pytest.mark.parametrize("words", [(), ("--optuna",)])
def test_the_best_of_twenty_trainings_costs_less_than_all_of_them(tmp_path, words):
    if words:
        pytest.importorskip("optuna")
    found = ran("sweep_digits", tmp_path / "run", *words)
    assert found["spent"] == pytest.approx(found["epsilon"], rel=1e-9)
    assert found["epsilon"] < 0.71 * found["composed"] and found["composed"] < found["summed"]
    assert found["accuracy"] > 0.6
    assert "sweep" in (tmp_path / "run" / "report.md").read_text()
    assert json.loads((tmp_path / "run" / "rates.sweep.json").read_text())["runs"]


SPACES = [
    ({"rate": np.float32([0.5, 0.25])}, {"rate": [0.5, 0.25]}),
    ({"rate": np.arange(2)}, {"rate": [0, 1]}),
    ({"layers": [(64,), (128, 64)], "bias": [np.True_, None]}, {"layers": [[64], [128, 64]], "bias": [True, None]}),
    ({"rate": (np.float64(value) for value in (1, 2))}, {"rate": [1.0, 2.0]}),
]


@pytest.mark.parametrize("space, plain", SPACES)
def test_a_space_is_kept_as_json_has_it(tmp_path, plan, space, plain):
    mails = data_set(tmp_path / "run", 30)
    words = dict(plan=plan, mean=3, shape=1.0)
    run = rustle.Sweep(mails, "rates", **words, space=space).next()
    assert all(run.parameters[name] in values for name, values in plain.items())
    # The same space again opens the same sweep.
    assert rustle.Sweep(mails, "rates", **words, space=plain).next().parameters == run.parameters


class Scalar:
    """An array of no axes."""

    ndim = 0

    def tolist(self):
        return 1.0


NO_SPACES = [
    ({1: [0.1]}, "a name of space is 1; allowed: names"),
    ({"rate": [float("nan"), 1.0]}, r"space\['rate'\]\[0\] is nan; allowed: finite numbers"),
    ({"rate": [np.array([1.0, np.inf])]}, r"space\['rate'\]\[0\]\[1\] is inf; allowed: finite numbers"),
    ({"rate": [1j]}, r"space\['rate'\]\[0\] is 1j; allowed: finite numbers"),
    ({"layer": [Scalar]}, r"space\['layer'\]\[0\] is .*allowed: finite numbers"),
    ({"layer": [{1: 2}]}, r"space\['layer'\]\[0\] is {1: 2}; allowed: finite numbers"),
    ({"rate": np.float32(0.1)}, r"space\['rate'\] is .*; allowed: names with lists"),
    ({"rate": {"a", "b"}}, r"space\['rate'\] is .*; allowed: names with lists"),
    ({"rate": []}, "space has no values of 'rate'"),
    ([], r"space is \[\]; allowed: names with lists"),
]


@pytest.mark.parametrize("space, match", NO_SPACES)
def test_a_space_that_no_file_keeps_is_not_charged(tmp_path, plan, space, match):
    mails = data_set(tmp_path / "run", 30)
    before = mails.show()
    with pytest.raises(errors.InvalidArgument, match=match):
        rustle.Sweep(mails, "rates", plan=plan, mean=3, shape=1.0, space=space)
    assert mails.show() == before
    rustle.Sweep(mails, "rates", plan=plan, mean=3, shape=1.0, space={"rate": [Scalar(), 2.0]})


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"space": {}}', '{"space": {}, "runs": {"1": {"job": "a"}}}', "\udcff"])
def test_a_file_of_a_sweep_that_is_damaged_is_not_charged_for(tmp_path, plan, damage):
    mails = data_set(tmp_path / "run", 30)
    before, path = mails.show(), tmp_path / "run" / "rates.sweep.json"
    words = dict(plan=plan, mean=3, shape=1.0)
    path.write_bytes(damage.encode(errors="surrogateescape"))
    with pytest.raises(errors.StoreError, match=r"rates.sweep.json can't be read \(.*\); allowed: the file as it was"):
        rustle.Sweep(mails, "rates", **words)
    path.write_text('{"space": {"rate": [1]}, "runs": {}}')
    with pytest.raises(errors.AlreadyExists, match="has the space"):
        rustle.Sweep(mails, "rates", **words)
    assert mails.show() == before


def test_wrong_values_of_runs(tmp_path, plan):
    sweep = rustle.Sweep(data_set(tmp_path / "run", 30), "rates", plan=plan, mean=3, shape=1.0)
    run = sweep.next()
    for bad in ("x", None, True, [1.0]):
        with pytest.raises(errors.InvalidArgument, match="score is .*; allowed: a number"):
            run.score = bad
    with pytest.raises(errors.InvalidArgument, match="plan is 'plan.toml'; allowed: a rustle.Plan"):
        run.connect(plan="plan.toml")
    with pytest.raises(errors.InvalidArgument, match="number is 'first'; allowed: a whole number"):
        sweep.run("first")
    with run.connect() as session:
        for words in (dict(unit="user"), dict(unit="example", delta=[DELTA]), dict(delta=(DELTA,))):
            with pytest.raises(errors.InvalidArgument, match="a run of sweep rates"):
                session.report(**words)
        with pytest.raises(errors.InvalidArgument, match="delta is 'small'; allowed: a number"):
            session.report(delta="small")


def test_a_ledger_that_this_process_holds_is_said_to_be_its_own(tmp_path, plan):
    folder = tmp_path / "run"
    mails = data_set(folder, 30)
    sweep = rustle.Sweep(mails, "rates", plan=plan, mean=3, shape=1.0)
    run = sweep.next()
    calls = [
        mails.show,
        mails.report,
        lambda: mails.grant(epsilon=40, delta=DELTA),
        lambda: mails.add_block("may", start="2026-05-01", until="2026-06-01"),
        lambda: data_set(folder, 30),
        lambda: rustle.Sweep(mails, "others", plan=plan, mean=3, shape=1.0),
        sweep.next,
        run.connect,
        lambda: rustle.connect(f"inproc://{folder}", data_set=mails),
    ]
    with run.connect():
        for call in calls:
            with pytest.raises(errors.Locked, match="this process has a session of .*Close it first"):
                call()
    mails.show()
