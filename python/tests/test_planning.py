"""Plans, accounts and batches as the command line has them."""

import json
import math
import pickle
import subprocess

import numpy as np
import pytest
from conftest import BINARY

import rustle
from rustle import errors, schemes

SETTING = dict(iterations=60, epsilon=2.0, delta=1e-6, min_sep=10, max_participations=6)


def test_a_plan_keeps_its_promise():
    plan = rustle.plan(float=True, **SETTING, dimension=1000, mechanism="blt", size=2, clip_norm=0.5)
    assert (plan.mechanism, plan.iterations, plan.min_sep, plan.max_participations) == ("blt", 60, 10, 6)
    assert plan.dimension == 1000 and plan.clip_norm == 0.5 and len(plan.digest) == 64
    # σ is rounded up to what runs in single precision.
    assert 2.0 * (1 - 1e-6) < plan.privacy(1e-6)["epsilon"] <= 2.0 * (1 + 1e-9)
    quieter = plan.replace(noise_multiplier=2 * plan.noise_multiplier)
    assert quieter.privacy(1e-6)["epsilon"] < 2.0
    assert rustle.calibrate(quieter, epsilon=2.0, delta=1e-6).noise_multiplier == plan.noise_multiplier


def test_the_best_plan_beats_independent_noise():
    entries = rustle.suggest(float=True, **SETTING, dimension=1000)
    assert [entry["error"] for entry in entries] == sorted(entry["error"] for entry in entries)
    best = rustle.plan(float=True, **SETTING, dimension=1000)
    assert best in [entry["plan"] for entry in entries if entry["recommended"]]
    identity = rustle.plan(float=True, **SETTING, dimension=1000, mechanism="identity")
    assert best.errors()["rms"] < 0.8 * identity.errors()["rms"]


def test_columns_with_norms_by_epoch_are_weighed():
    setting = dict(iterations=128, epsilon=2.0, delta=1e-6, min_sep=16, max_participations=8, dimension=1000)
    entries = rustle.suggest(float=True, **setting)
    norms = {(entry["mechanism"], entry["size"], entry["column_norms"]): entry for entry in entries}
    for mechanism, size in (("band-toeplitz", 16), ("blt", 2)):
        scaled, equal = (norms[mechanism, size, of] for of in ("by-epoch", "equal"))
        assert scaled["error"] < 0.99 * equal["error"]
        assert scaled["plan"].errors()["rms"] == pytest.approx(scaled["error"])
        assert scaled["plan"].privacy(1e-6)["epsilon"] <= 2.0 * (1 + 1e-9)
    assert all(entry["column_norms"] == "equal" for entry in rustle.suggest(float=True, **setting, objective="last"))


@pytest.mark.parametrize("mechanism, size, default", [("band-mf", 16, 0), ("band-toeplitz", 16, 1), ("blt", 2, 1), ("blt", None, 1)])
def test_the_norms_of_columns_are_chosen(mechanism, size, default):
    setting = dict(iterations=128, epsilon=2.0, delta=1e-6, min_sep=16, max_participations=8, dimension=1000, float=True)
    setting |= dict(mechanism=mechanism, size=size)
    plans = [rustle.plan(**setting, column_norms=norms) for norms in ("by-epoch", "equal")]
    by_epoch, equal = (plan.errors()["rms"] for plan in plans)
    assert by_epoch < 0.99 * equal
    assert all(plan.privacy(1e-6)["epsilon"] <= 2.0 * (1 + 1e-9) for plan in plans)
    assert rustle.plan(**setting) == plans[default]


def test_norms_by_epoch_on_a_grid():
    setting = dict(iterations=32, epsilon=2.0, delta=1e-6, min_sep=8, max_participations=4, dimension=100, batch_size=4)
    plan = rustle.plan(**setting, mechanism="band-toeplitz", column_norms="by-epoch")
    equal = rustle.plan(**setting, mechanism="band-toeplitz", column_norms="equal")
    assert plan.grid is not None and plan.errors()["rms"] < 0.99 * equal.errors()["rms"]
    with pytest.raises(errors.InvalidArgument, match="column_norms is 'by-epoch'; allowed: for blt, equal, or float=True"):
        rustle.plan(**setting, mechanism="blt", column_norms="by-epoch")


def test_a_plan_in_a_file(tmp_path):
    plan = rustle.plan(float=True, **SETTING, parameters=[("w", (3, 4)), ("b", ())], mechanism="band-sqrt", size=3)
    # Into folders that are not there yet.
    file = tmp_path / "runs" / "first" / "plan.toml"
    plan.save(file)
    again = rustle.Plan.load(file)
    with pytest.raises(errors.PlanError, match="below.toml"):
        plan.save(file / "below.toml")
    assert again == plan == pickle.loads(pickle.dumps(plan)) and hash(again) == hash(plan)
    assert again.parameters == [("w", [3, 4]), ("b", [])] and again.dimension == 13
    assert again.layout_digest == plan.layout_digest != plan.replace(dimension=13).layout_digest
    assert rustle.Plan.from_toml(plan.to_toml()) == plan
    if BINARY.exists():
        command = [
            BINARY,
            "account",
            "zcdp",
            "--plan",
            file,
            "--delta",
            "1e-6",
            "--format",
            "json",
        ]
        said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert said["epsilon"] == plan.privacy(1e-6)["epsilon"]


def test_trees_start_afresh_by_a_plan():
    plan = rustle.plan(float=True, **SETTING, mechanism="tree")
    again = plan.with_restarts([20, 40], True)
    assert plan.restarts == [] and again.restarts == [20, 40] and again.digest != plan.digest
    assert rustle.calibrate(again, epsilon=2, delta=1e-6).privacy(1e-6)["epsilon"] == pytest.approx(2)
    for bad in ([0], [4, 4], [60]):
        with pytest.raises(errors.PlanError):
            plan.with_restarts(bad)
    with pytest.raises(errors.InvalidArgument, match="tree"):
        rustle.plan(float=True, **SETTING, mechanism="identity").with_restarts([4])


@pytest.mark.parametrize(
    "change",
    [
        dict(iterations=0),
        dict(epsilon=-1.0),
        dict(delta=2.0),
        dict(min_sep=0),
        dict(mechanism="none"),
        dict(objective="median"),
        dict(size=3),
        dict(mechanism="identity", size=3),
        dict(dimension=0),
        dict(parameters=[("w", (2,))]),
        dict(mechanism="blt", size=99),
        dict(iterations=5),
    ],
)
def test_settings_that_are_refused(change):
    with pytest.raises(errors.InvalidArgument):
        rustle.plan(float=True, **{**SETTING, "dimension": 1000, **change})


def test_plans_that_are_refused(tmp_path):
    with pytest.raises(errors.PlanError, match="stream_version"):
        rustle.Plan.from_toml("format = 1")
    with pytest.raises(errors.PlanError, match="none.toml"):
        rustle.Plan.load(tmp_path / "none.toml")


def test_epsilon_of_events():
    assert rustle.epsilon({"kind": "gaussian", "noise_multiplier": 1.0}, delta=1e-5) == pytest.approx(
        4.3774, abs=1e-3
    )
    poisson = {"kind": "poisson-sampled-gaussian", "noise_multiplier": 1.0, "sampling_probability": 0.01}
    many = {"kind": "self-composed", "event": poisson, "count": 100}
    single, composed = (
        rustle.epsilon(event, delta=1e-5, neighbouring="add-remove") for event in (poisson, many)
    )
    assert 0 < single < composed < 4
    plan = rustle.plan(float=True, **SETTING, mechanism="identity")
    assert 2.0 * (1 - 1e-6) < rustle.epsilon(rustle.event(plan), delta=1e-6) <= 2.0 * (1 + 1e-9)
    for bad in ({"kind": "none"}, {}):
        with pytest.raises(errors.InvalidArgument):
            rustle.epsilon(bad, delta=1e-5)
    with pytest.raises(errors.AccountingError):
        rustle.epsilon(poisson, delta=0.0)


def plan_mu(plan):
    return json.loads(rustle.report(plan, format="json"))["mu"]


def test_the_statement_of_a_plan(tmp_path):
    plan = rustle.plan(float=True, **SETTING, mechanism="identity")
    text = rustle.report(plan, tmp_path / "r.md", delta=[1e-6, 1e-5])
    assert "ε" in text and (tmp_path / "r.md").read_text() == text
    assert rustle.report(plan, tmp_path / "r.html").startswith("<!")
    sampled = json.loads(
        rustle.report(plan, delta=1e-6, batches=rustle.sampling.CyclicPoisson(0.1), format="json")
    )
    assert sampled["guarantees"][0]["epsilon"] < 2.0
    # Its one band lets a record take every step: ten times as often as the plan is for.
    assert sampled["without_sampling"]["mu"] / plan_mu(plan) == pytest.approx(math.sqrt(10))
    assert sampled["plan_participation"] == {"min_sep": 10, "max_participations": 6}
    # The form of before still works, with a warning.
    with pytest.warns(DeprecationWarning, match="rustle.sampling.CyclicPoisson"):
        old = rustle.report(plan, delta=1e-6, batches=("cyclic-poisson", 0.1, "independent"), format="json")
    assert json.loads(old) == sampled
    for bad in (("poisson", 0.1), ("cyclic-poisson", 0.1), (), "cyclic-poisson", 7):
        with pytest.raises(errors.InvalidArgument, match="rustle.sampling"):
            rustle.report(plan, batches=bad)


SEED = bytes(range(1, 33))


def test_batches_follow_their_scheme():
    batches = rustle.Batches(schemes.fixed_order(5), 100, 20, SEED)
    epochs = [np.concatenate([batches[r] for r in range(e, e + 5)]) for e in (0, 5)]
    assert np.array_equal(np.sort(epochs[0]), np.arange(100)) and np.array_equal(epochs[0], epochs[1])
    assert batches.event == {**batches.event, "kind": "any-order", "min_sep": 5, "max_participations": 4}
    assert all(np.array_equal(a, b) for a, b in zip(batches.rounds(7), list(batches)[7:], strict=True))
    sizes = [len(batch) for batch in rustle.Batches(schemes.poisson(0.25), 4000, 50, SEED)]
    assert abs(np.mean(sizes) - 1000) < 5 * math.sqrt(4000 * 0.25 * 0.75 / 50)
    capped = rustle.Batches(schemes.poisson(0.25, cap=10), 4000, 5, SEED)
    assert all(len(batch) == 10 for batch in capped) and capped.padding(0) == 0
    users = rustle.Batches(schemes.uls(2, schemes.poisson(0.5)), [3, 1, 4], 10, SEED)
    assert all(len(owners) == len(batch) for batch, owners in zip(users, map(users.owners, range(10))))


def test_batches_are_those_of_the_command_line(tmp_path):
    if not BINARY.exists():
        pytest.skip("no program")
    seed = tmp_path / "seed"
    seed.touch(mode=0o600)
    seed.write_bytes(SEED)
    words = "batches --scheme b-min-sep --min-sep 3 --sampling-probability 0.2 --warm-start --population 50"
    command = [BINARY, *words.split(), "--iterations", "9", "--seed-file", seed, "--out", "-"]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    batches = rustle.Batches(schemes.b_min_sep(3, 0.2), 50, 9, SEED)
    assert [json.loads(line)["ids"] for line in lines] == [batch.tolist() for batch in batches]


def test_batches_that_are_refused():
    for scheme in (
        {"kind": "none"},
        schemes.poisson(0.0),
        schemes.cyclic_poisson(5, 0.5),
        schemes.uls(1, schemes.poisson(1)),
    ):
        with pytest.raises(errors.InvalidArgument):
            rustle.Batches(scheme, 10, 5, SEED)
    with pytest.raises(errors.InvalidArgument, match="32"):
        rustle.Batches(schemes.poisson(0.5), 10, 5, b"short")
    with pytest.raises(IndexError):
        rustle.Batches(schemes.poisson(0.5), 10, 5, SEED)[5]
