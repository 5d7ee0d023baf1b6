"""Runs begun in one call, and what their folders say of themselves."""

import subprocess

import numpy as np
import pytest

import rustle
import rustle.metrics
from rustle import errors

ASKED = dict(parameters=[("w", (4, 5))], records=50, batch_size=8, epochs=3, epsilon=4.0, delta=1e-5)


def steps(rounds, count):
    session = rounds.session
    found = []
    for ids in rounds:
        session.privatize_(np.zeros(20, np.float32), session.next_step)
        found.append(len(ids))
        if len(found) == count:
            break
    return found


def test_a_run_is_what_was_asked_for(tmp_path):
    rounds = rustle.begin(tmp_path / "a run", **ASKED)
    plan = rounds.session.plan
    assert (plan.iterations, plan.min_sep, plan.max_participations, plan.dimension) == (21, 7, 3, 20)
    assert plan.privacy(1e-5)["epsilon"] == pytest.approx(4.0, rel=1e-6)
    sizes = [size for _ in range(3) for size in steps(rounds, 100)]
    assert len(sizes) == 21 and max(sizes) <= 8 and sum(sizes) == 3 * 50
    rounds.session.close()


def test_it_continues_in_its_folder_and_with_its_arguments_alone(tmp_path):
    first = rustle.begin(tmp_path, **ASKED)
    steps(first, 5)
    cursor, digest = first.session.cursor(), first.digest
    first.session.close()
    again = rustle.begin(tmp_path, **ASKED)
    assert again.digest == digest
    assert not again.session.resume(cursor) and len(steps(again, 100)) == 2
    again.session.close()
    for name, value in (("epochs", 4), ("batch_size", 10), ("epsilon", 8.0), ("poisson", True), ("clip_norm", 2.0)):
        with pytest.raises(errors.PlanError, match="other arguments"):
            rustle.begin(tmp_path, **{**ASKED, name: value})


@pytest.mark.parametrize("less", [5e-5, -5e-5, 0.0])
def test_a_plan_with_a_little_less_noise_is_not_the_one_that_was_asked_for(tmp_path, less):
    """ε above the requested one is refused however near it is; a little below it other versions of the search may end."""
    rounds = rustle.begin(tmp_path / "made", **ASKED)
    plan = rounds.session.plan
    rounds.session.close()
    plan.replace(noise_multiplier=plan.noise_multiplier * (1 - less)).save(tmp_path / "run" / "plan.toml")
    if less > 0:
        with pytest.raises(errors.PlanError, match="its epsilon is 4.0002"):
            rustle.begin(tmp_path / "run", **ASKED)
    else:
        rustle.begin(tmp_path / "run", **ASKED).session.close()


def test_poisson_batches_keep_the_promise(tmp_path):
    rounds = rustle.begin(tmp_path, **ASKED, poisson=True)
    report = rustle.metrics.Metrics(rounds.session, delta=1e-5).figures()
    assert 3.99 < report["rustle/epsilon_planned"] <= 4.0
    assert rounds.session.plan.mechanism == "identity" and rounds.batches.scheme["kind"] == "poisson"
    rounds.session.close()


@pytest.mark.parametrize("name, value", [("records", 0), ("batch_size", 0), ("epochs", 0), ("mechanism", "no")])
def test_what_no_run_can_be_is_refused(tmp_path, name, value):
    with pytest.raises(errors.InvalidArgument, match=name):
        rustle.begin(tmp_path / "run", **{**ASKED, name: value})
    assert not (tmp_path / "run" / "ledger.redb").exists()


def test_git_leaves_the_folder_out(tmp_path):
    rustle.begin(tmp_path / "run", **ASKED).session.close()
    (tmp_path / "run" / "checkpoint.pt").touch()
    for name in ("job.key", "batches.key"):
        assert name in (tmp_path / "run" / "README.md").read_text()
        assert (tmp_path / "run" / name).stat().st_mode & 0o077 == 0
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "-A"], check=True)
    assert subprocess.check_output(["git", "-C", tmp_path, "ls-files"]) == b""


def test_other_files_of_a_folder_stay_in_git(tmp_path):
    """A run begun in the folder of a program leaves its secrets out alone, and no file that is there is changed."""
    (tmp_path / "train.py").touch()
    rustle.begin(tmp_path, **ASKED).session.close()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "-A"], check=True)
    listed = subprocess.check_output(["git", "-C", tmp_path, "ls-files"], text=True).split()
    assert listed == [".gitignore", "plan.toml", "train.py"]
    own = tmp_path / "own"
    own.mkdir()
    (own / ".gitignore").write_text("mine\n")
    rustle.begin(own, **ASKED).session.close()
    assert (own / ".gitignore").read_text() == "mine\n" and not (own / "README.md").exists()


def test_a_cell_is_run_again(tmp_path, monkeypatch):
    """An interpreter of its own has sys.ps1: there the earlier session of the folder is closed."""
    import sys

    first = rustle.begin(tmp_path, **ASKED)
    with pytest.raises(errors.Locked, match="this process has a session"):
        rustle.begin(tmp_path, **ASKED)
    assert not first.session.closed
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    second = rustle.begin(tmp_path, **ASKED)
    assert first.session.closed and not second.session.closed
    second.session.close()


def test_what_notebooks_show(tmp_path):
    rounds = rustle.begin(tmp_path, **ASKED)
    session = rounds.session
    html = session.plan._repr_html_()
    assert html.startswith("<table>") and f"<td>{session.plan.mechanism}</td>" in html and "<td>21</td>" in html
    assert session.report(delta=1e-5)._repr_markdown_().startswith("#")
    assert "<html" in session.report(delta=1e-5, format="html")._repr_html_()
    assert session.report(delta=1e-5, format="json")._repr_html_() is None
    session.close()


def test_the_version_is_the_packages():
    assert rustle.__version__ == "0+sources" or rustle.__version__.count(".") == 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("checked", [False, True])
def test_sums_that_are_not_finite_are_refused(tmp_path, value, checked):
    rounds = rustle.begin(tmp_path, **ASKED)
    session = rounds.session
    if checked:
        next(iter(rounds))
    else:
        session.close()
        session = rustle.connect(f"inproc://{tmp_path}")
    sum = np.zeros(20, np.float32)
    sum[3] = value
    with pytest.raises(errors.InvalidArgument, match="has norm (nan|inf)" if checked else "not finite"):
        session.privatize_(sum, 0)
    assert session.next_step == 0
    session.close()
