"""Copies of a run's folder, and older ledgers in their place: found before a row is released."""

import json
import shutil

import numpy as np
import pytest

import rustle
from rustle import errors


@pytest.fixture
def run(tmp_path, plan):
    """A folder with a plan alone."""
    folder = tmp_path / "run"
    folder.mkdir()
    plan.save(folder / "plan.toml")
    return folder


def trained(folder, steps, cursor=None, **words):
    """The rows of the next steps of the run, which continues at the cursor, and a cursor after them."""
    with rustle.connect(f"inproc://{folder}", **words) as session:
        if cursor is not None:
            session.resume(cursor)
        first = session.next_step
        found = np.empty((steps, session.dimension), np.float32)
        for step in range(steps):
            session.fetch_into(first + step, found[step])
        return found, session.cursor()


def assert_copied(folder, cursor, why, query=""):
    """The session is read and continues nothing, twice alike."""
    for _ in range(2):
        with rustle.connect(f"inproc://{folder}{query}") as session:
            assert session.branch == 0 and "mechanism" in session.report(format="json")
            row = np.empty(session.dimension, np.float32)
            for refused in (lambda: session.restart(), lambda: session.fetch_into(session.next_step, row)):
                with pytest.raises(errors.LedgerCopied, match=why) as error:
                    session.resume(cursor)
                    refused()
                assert error.value.kind == "ledger_copied" and not error.value.retry_safe
                assert "adopt" in str(error.value)


def assert_fresh(ours, theirs):
    assert np.mean(ours == theirs) < 0.01


def test_a_copied_folder_repeats_no_noise(run, tmp_path):
    copy = tmp_path / "copy"
    _, cursor = trained(run, 3)
    shutil.copytree(run, copy)
    original, after = trained(run, 2, cursor)
    assert_copied(copy, cursor, "another file")
    adopted, of_copy = trained(copy, 2, cursor, adopt=True)
    assert_fresh(original, adopted)
    # Once: from then on each is a ledger of its own.
    assert_fresh(trained(run, 1, after)[0], trained(copy, 1, of_copy)[0])


def test_an_older_ledger_in_its_place_is_found(run):
    """As `cp backup ledger.redb` puts it there: in the same file. Of an earlier opening, and of the last one."""
    ledger = run / "ledger.redb"
    _, cursor = trained(run, 2)
    yesterday = ledger.read_bytes()
    with rustle.connect(f"inproc://{run}") as session:
        session.resume(cursor)
        lost = np.empty((2, session.dimension), np.float32)
        session.fetch_into(2, lost[0])
        today = ledger.read_bytes()
        session.fetch_into(3, lost[1])
    ledger.write_bytes(today)
    assert_copied(run, cursor, "its anchor has seen")
    ledger.write_bytes(yesterday)
    assert_copied(run, cursor, "another opening")
    adopted, _ = trained(run, 2, cursor, adopt=True)
    assert_fresh(lost, adopted)


def test_a_key_that_copies_share_finds_both(run, tmp_path):
    (tmp_path / "secrets").mkdir()
    query = f"?key_file={tmp_path}/secrets/job.key"
    _, cursor = trained(run, 1)
    shutil.move(run / "job.key", tmp_path / "secrets")
    for anchor in run.glob("job.key.anchor-*"):
        shutil.move(anchor, tmp_path / "secrets")
    _, cursor = trained(f"{run}{query}", 1, cursor)
    shutil.copytree(run, tmp_path / "copy")
    assert_copied(tmp_path / "copy", cursor, "another file", query)
    trained(f"{tmp_path}/copy{query}", 1, cursor, adopt=True)
    assert_copied(run, cursor, "a copy of it was adopted", query)


def test_a_lost_anchor_is_found(run):
    _, cursor = trained(run, 1)
    for anchor in run.glob("job.key.anchor-*"):
        anchor.unlink()
    assert_copied(run, cursor, "is missing")


def test_a_copy_reserves_nothing_and_an_adopted_one_says_what_it_lacks(run, tmp_path, plan):
    words = {"unit": "user", "delta": 1e-5}
    mails = rustle.DataSet(f"inproc://{run}", "mails", epsilon=100, **words)
    rustle.Sweep(mails, "rates", plan=plan, mean=2, space={"rate": [0.1]})
    _, cursor = trained(run, 2)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    of_copy = rustle.DataSet(f"inproc://{copy}", "mails", epsilon=100, **words)
    for refused in (
        lambda: of_copy.grant(epsilon=200, delta=1e-5),
        lambda: rustle.DataSet(f"inproc://{copy}", "letters", epsilon=1, **words),
        lambda: rustle.Sweep(of_copy, "more", plan=plan, mean=2, space={"rate": [0.1]}),
    ):
        with pytest.raises(errors.LedgerCopied, match="another file"):
            refused()
    trained(copy, 1, cursor, adopt=True)
    # Also where it is opened again.
    with rustle.connect(f"inproc://{copy}") as session:
        assert "adopted at row 2 of branch 0" in json.loads(session.report(format="json"))["job"]["ledger_doubt"]
        assert "Not to be relied on" in session.report()


def test_adoption_is_for_ledgers_in_this_process():
    for url in ("grpc://localhost:1", "mpi://"):
        with pytest.raises(errors.InvalidArgument, match="adopt"):
            rustle.connect(url, adopt=True)


@pytest.mark.parametrize("operation", ["restart", "move", "chmod", "backup", "adopt"])
def test_ordinary_operations_raise_no_alarm(run, tmp_path, operation):
    _, cursor = trained(run, 2)
    if operation == "move":
        run = run.rename(tmp_path / "moved")
    if operation == "chmod":
        (run / "ledger.redb").chmod(0o640)
    if operation == "backup":
        shutil.copytree(run, tmp_path / "backup")
    with rustle.connect(f"inproc://{run}", adopt=operation == "adopt") as session:
        assert not session.resume(cursor)
        session.fetch_into(2, np.empty(session.dimension, np.float32))
        assert session.branch == 0
