"""Runs begun in one call, and what their folders say of themselves."""

import json
import math
import subprocess
from fractions import Fraction

import numpy as np
import pytest

import rustle
import rustle.metrics
from rustle import errors
from rustle._batch_bound import largest_batch
from rustle._run_request import RunRequest

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


@pytest.mark.parametrize("changes", [{}, dict(mechanism="band-mf", size=4), dict(norm_dtype="float64"), dict(batch_size=50)])
def test_its_plan_is_the_one_that_rustle_plan_makes(tmp_path, changes):
    asked = {**ASKED, **changes}
    rounds = rustle.begin(tmp_path, **asked)
    size = asked.pop("batch_size")
    apart = -(-asked.pop("records") // size)
    plan = rustle.plan(**asked, iterations=3 * apart, min_sep=apart, batch_size=size)
    assert rounds.session.plan.to_toml() == plan.to_toml() and plan.grid["rounding"] == "nearest"
    rounds.session.close()


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("poisson", [False, True])
def test_its_noise_is_on_a_grid_and_its_report_says_so(tmp_path, poisson, floats, recwarn):
    """Whole steps of the grid in every coordinate; floating-point rows have finer digits."""
    asked = {**ASKED, "parameters": [("w", (40, 50))], "poisson": poisson}
    rounds = rustle.begin(tmp_path, **asked, float=floats)
    assert len(recwarn.list) == floats
    session = rounds.session
    step = 2.0 ** (session.plan.on_grid(1e-4) if floats else session.plan).grid["step"]
    next(iter(rounds))
    found = session.privatize_(np.linspace(-1e-2, 1e-2, 2000, dtype=np.float32), 0).astype(np.float64) / step
    assert (found == np.rint(found)).all() == (not floats)
    assert ("Noise and sums are integers times 2^" in session.report(delta=1e-5)) is not floats
    session.close()


def test_a_run_of_floating_point_rows_is_asked_for_and_stays_one(tmp_path):
    with pytest.warns(UserWarning, match="rows of this run are floating-point numbers"):
        rounds = rustle.begin(tmp_path / "floats", **ASKED, float=True)
    assert rounds.session.plan.grid is None
    steps(rounds, 2)
    cursor = rounds.session.cursor()
    rounds.session.close()
    before = sorted((path.name, path.read_bytes()) for path in (tmp_path / "floats").iterdir())
    with pytest.raises(errors.PlanError, match="allowed: float=True, which continues it as it began, or another folder"):
        rustle.begin(tmp_path / "floats", **ASKED)
    assert sorted((path.name, path.read_bytes()) for path in (tmp_path / "floats").iterdir()) == before
    with pytest.warns(UserWarning, match="floating-point"):
        rounds = rustle.begin(tmp_path / "floats", **ASKED, float=True)
    assert not rounds.session.resume(cursor) and rounds.session.next_step == 2
    rounds.session.close()
    rustle.begin(tmp_path / "grid", **ASKED).session.close()
    with pytest.warns(UserWarning), pytest.raises(errors.PlanError, match="a run on a grid and float is True"):
        rustle.begin(tmp_path / "grid", **ASKED, float=True)


def test_a_plan_whose_grid_covers_less_is_not_the_one_that_was_asked_for(tmp_path):
    rustle.begin(tmp_path / "run", **ASKED, norm_dtype="float64").session.close()
    plan = rustle.Plan.load(tmp_path / "run" / "plan.toml")
    rustle.begin(tmp_path / "run", **ASKED, norm_dtype="float64").session.close()
    with pytest.raises(errors.PlanError, match=f"its grid.summing_error is {plan.grid['summing_error']}, asked for was"):
        rustle.begin(tmp_path / "run", **ASKED)


@pytest.mark.parametrize(
    "changes, match",
    [
        (dict(records=6000, batch_size=3000), "up to 3000 records"),
        (dict(records=5400, batch_size=2700, poisson=True), "up to 3[0-9]* records"),
        (dict(parameters=[("w", (2**24,))]), "16777216 coordinates.*norm_dtype=\"float64\" where"),
        (dict(norm_dtype="bfloat16"), "norm_dtype is 'bfloat16'"),
    ],
)
def test_batches_that_no_grid_covers_are_refused_before_anything_is_written(tmp_path, changes, match):
    way_out = "" if "norm_dtype" in changes else ".*float=True"
    with pytest.raises(errors.InvalidArgument, match=match + way_out):
        rustle.begin(tmp_path / "run", **{**ASKED, **changes})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "records, batches, rounds", [(50, 7, 21), (1, 3, 5), (2, 3, 9), (300, 40, 400), (600, 200, 100_000), (9, 1, 4)]
)
def test_the_largest_batch_of_a_poisson_sampling(records, batches, rounds):
    """By whole numbers: nearly the least size that any of the batches exceeds with a probability of at most 1e-16."""

    def exceeded(size):
        ways = sum(math.comb(records, i) * (batches - 1) ** (records - i) for i in range(size + 1, records + 1))
        return Fraction(rounds * ways, batches**records)

    found = largest_batch(records, batches, rounds)
    assert exceeded(found) <= Fraction(1, 10**16) * (1 + Fraction(1, 10**6))
    assert found == min(records, -(-records // batches)) or exceeded(found - 2) > Fraction(1, 10**16)
    assert largest_batch(records, batches, None) == -(-records // batches)


def test_a_batch_beyond_what_the_grid_covers_has_no_row(tmp_path):
    rounds = rustle.begin(tmp_path, **ASKED, poisson=True)
    session = rounds.session
    assert 8 < rounds.largest <= 50
    rounds.largest = 0
    sums, at = np.zeros(20, np.float32), 0
    for ids in rounds:
        if len(ids):
            break
        session.privatize_(sums, at)
        at += 1
    with pytest.raises(errors.InvalidArgument, match=f"the batch of step {at} has {len(ids)} records; allowed: 0, whose sum"):
        session.privatize_(sums, at)
    released = json.loads(session.report(format="json", delta=1e-5))["released"]["rows"]
    assert released == session.next_step == at
    session.skip()
    assert session.next_step == at + 1
    session.close()


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


@pytest.mark.parametrize("records, more", [(6000, 1.005), (60_000, 1.1)])
def test_poisson_batches_on_a_grid_have_no_more_noise_than_the_grid_takes(records, more):
    """Also where the account without sampling has no ε at all, as σ is small."""
    words = dict(steps_per_epoch=100, epochs=5, clip_norm=1.0, promise=(4.0, 1e-6), poisson=True)
    sigmas = []
    for floats in (True, False):
        request = RunRequest([("w", (300,))], records, **words, floats=floats)
        plan = request._plan()
        assert 3.99 < request._epsilon(plan, 1e-6) <= 4.0
        sigmas.append(plan.noise_multiplier)
    assert sigmas[0] < sigmas[1] < more * sigmas[0]


def test_an_account_that_fails_is_no_answer(monkeypatch):
    """Taken for noise that does not suffice, it would raise the noise without a word."""
    words = dict(steps_per_epoch=100, epochs=5, clip_norm=1.0, promise=(4.0, 1e-6), poisson=True)
    request, whole = RunRequest([("w", (300,))], 6000, **words), rustle._planning.epsilon

    def failing(event, *, delta):
        # That of σ = 0.9, which keeps ε: the search goes through it.
        if "failure_probability" in event and event["noise_multiplier"] < 1.2:
            raise errors.make("out_of_reach", "of another account")
        return whole(event, delta=delta)

    monkeypatch.setattr("rustle._planning.epsilon", failing)
    with pytest.raises(errors.RustleError, match="of another account"):
        request._plan()


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
    with pytest.raises(errors.InvalidArgument, match="not finite"):
        session.privatize_(sum, 0)
    assert session.next_step == 0
    session.close()


def test_a_run_that_was_refused_leaves_its_folder_free(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise errors.make("batches", "none of these")

    with monkeypatch.context() as patched, pytest.raises(errors.InvalidArgument, match="none of these"):
        patched.setattr("rustle._run_request.Rounds", refused)
        rustle.begin(tmp_path, **ASKED)
    rustle.begin(tmp_path, **ASKED).session.close()
