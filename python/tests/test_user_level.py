"""Users with many records: Charles et al. (2024), Algorithms 1 and 2, and what they cost."""

import json

import numpy as np
import pytest
from conftest import prepared, rows

import rustle
from rustle import _assumptions, errors, group_sizes, schemes, user_level
from rustle.sampling import BMinSep, CyclicPoisson

SIZES = [5, 1, 9, 3, 12, 7, 2, 6] * 4
RECORDS, DIMENSION, ROUNDS, SEED = sum(SIZES), 40, 20, bytes(range(32))
Q = 0.25
OWNERS = np.repeat(np.arange(len(SIZES)), SIZES)


def planned(group_size=1, **changes):
    setting = dict(iterations=ROUNDS, epsilon=3.0, delta=1e-5, sampling_probability=Q, dimension=DIMENSION)
    return user_level.plan(float=True, **{**setting, **changes}, group_size=group_size, clip_norm=0.5)


def gradients(ids):
    """Some records' are short and some long, by turns."""
    drawn = [np.random.default_rng(int(record)).normal(size=DIMENSION) for record in ids]
    return np.stack(drawn) * (0.03 + 0.05 * (ids[:, None] % 5))


def batches(scheme, rounds=ROUNDS):
    return rustle.Batches(scheme, SIZES, rounds, SEED)


@pytest.fixture
def opened(tmp_path):
    sessions = []

    def make(plan):
        with rustle.connect(f"inproc://{prepared(tmp_path / f'twin{len(sessions)}', plan)}") as session:
            noise = rows(session, plan.iterations).astype(np.float64)
        sessions.append(rustle.connect(f"inproc://{prepared(tmp_path / f'run{len(sessions)}', plan)}"))
        return sessions[-1], noise

    yield make
    for session in sessions:
        session.close()


def clipped(vector):
    return vector * min(1, 0.5 / np.linalg.norm(vector))


def test_els_clips_records(opened):
    scheme = schemes.els(4, Q)
    session, noise = opened(planned(4))
    training = user_level.Training(session, batches(scheme))
    assert training.expected_size == Q * sum(min(size, 4) for size in SIZES)
    clips = 0
    for round, ids in training:
        each = gradients(ids)
        clips += sum(np.linalg.norm(row) > 0.5 for row in each)
        expected = (sum(clipped(row) for row in each) + noise[round]) / training.expected_size
        got = training.noisy_mean(round, gradients if round % 2 else each, chunk=5)
        assert got.dtype == np.float32 and np.allclose(got, expected, atol=1e-6)
        assert np.bincount(OWNERS[ids], minlength=len(SIZES)).max() <= 4
    assert round == ROUNDS - 1 and clips > 10


@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_uls_clips_users(opened, combine):
    scheme = schemes.uls(3, schemes.poisson(Q))
    session, noise = opened(planned())
    training = user_level.Training(session, batches(scheme), combine=combine)
    assert training.expected_size == Q * len(SIZES)
    for round, ids in training:
        each, owners = gradients(ids) if len(ids) else np.zeros((0, DIMENSION)), OWNERS[ids]
        whole = np.zeros(DIMENSION)
        for owner in set(owners):
            mine = each[owners == owner]
            assert len(mine) == min(3, SIZES[owner])
            whole += clipped(mine.mean(0) if combine == "mean" else mine.sum(0))
        got = training.noisy_mean(round, gradients if round % 2 else each)
        assert np.allclose(got, (whole + noise[round]) / training.expected_size, atol=1e-6)


def test_costs_are_the_accountants(opened, tmp_path):
    group = opened(planned(4))[0]
    training = user_level.Training(group, batches(schemes.els(4, Q)))
    assert training.epsilon(1e-5) == pytest.approx(3.0, rel=1e-3)
    assert training.epsilon(1e-5) <= 3.0 * (1 + 1e-6)
    law = training.event
    assert law["count"] == ROUNDS and law["event"]["kind"] == "mixture-of-gaussians"
    assert len(law["event"]["probabilities"]) == 5
    text = training.report(tmp_path / "els.md", delta=1e-5)
    assert (tmp_path / "els.md").read_text() == text and "| 0.25 |" in text and "rounds released | 0" in text
    with pytest.raises(errors.AccountingError):
        training.epsilon(1e-5, neighbouring="replace")

    users = opened(planned())[0]
    training = user_level.Training(users, batches(schemes.uls(3, schemes.poisson(Q))))
    assert training.epsilon(1e-5) == pytest.approx(3.0, rel=1e-3)
    assert training.epsilon(1e-5) == pytest.approx(rustle.epsilon(training.event, delta=1e-5), rel=1e-6)
    assert "ε" in training.report(tmp_path / "uls.md", delta=1e-5)
    # More of a user's records at once cost more; users alone are the cheapest.
    sigmas = [planned(size).noise_multiplier for size in (1, 2, 4, 8)]
    assert sigmas == sorted(sigmas) and sigmas[3] < 8 * sigmas[0]


def test_users_in_turn_may_have_correlated_noise(opened, tmp_path):
    plan = rustle.plan(
        float=True,
        iterations=ROUNDS,
        epsilon=3,
        delta=1e-5,
        min_sep=5,
        max_participations=4,
        mechanism="blt",
        size=2,
        clip_norm=0.5,
    ).replace(dimension=DIMENSION)
    session, noise = opened(plan)
    training = user_level.Training(session, batches(schemes.uls(3, schemes.fixed_order(5))))
    for round, ids in training:
        got = training.noisy_mean(round, np.zeros((len(ids), DIMENSION)))
        assert np.allclose(got, noise[round] / (len(SIZES) / 5), atol=1e-6)
    assert training.epsilon(1e-5) == pytest.approx(3.0, rel=1e-6)
    assert "ε" in training.report(tmp_path / "uls.md", delta=1e-5)


def test_a_run_that_went_back_has_no_amplified_account(opened, tmp_path):
    session, _ = opened(planned(4))
    training = user_level.Training(session, batches(schemes.els(4, Q)))
    place = session.cursor()
    training.noisy_mean(0, gradients)
    session.resume(place)
    training.noisy_mean(0, gradients)
    with pytest.raises(errors.AccountingError, match="went back"):
        training.report(tmp_path / "els.md", delta=1e-5)
    assert not (tmp_path / "els.md").exists()


def test_what_is_refused(opened):
    session, _ = opened(planned(4))
    for scheme, how in (
        (schemes.els(4, Q), dict(combine="sum")),
        (schemes.els(4, Q), dict(combine="median")),
    ):
        with pytest.raises(errors.InvalidArgument):
            user_level.Training(session, batches(scheme), **how)
    with pytest.raises(errors.InvalidArgument, match="allowed: els, uls"):
        user_level.Training(session, rustle.Batches(schemes.poisson(Q), RECORDS, ROUNDS, SEED))
    with pytest.raises(errors.InvalidArgument, match="rounds"):
        user_level.Training(session, batches(schemes.els(4, Q), ROUNDS - 1))
    training = user_level.Training(session, batches(schemes.els(4, Q)))
    with pytest.raises(errors.SessionBusy):
        user_level.Training(session, batches(schemes.els(4, Q)))
    count = len(training.batches[0])
    nan = np.full((count, DIMENSION), np.nan)
    for bad in (
        nan,
        np.zeros((count + 1, DIMENSION)),
        np.zeros((count, 2)),
        lambda ids: np.zeros((1, DIMENSION)),
    ):
        with pytest.raises((errors.InvalidArgument, errors.LayoutMismatch)):
            training.noisy_mean(0, bad)
    assert session.next_step == 0
    blt = rustle.plan(
        float=True,
        iterations=ROUNDS, epsilon=3, delta=1e-5, max_participations=ROUNDS, mechanism="blt", size=2
    ).replace(dimension=DIMENSION)
    with pytest.raises(errors.PlanError, match="identity"):
        user_level.Training(opened(blt)[0], batches(schemes.els(4, Q)))
    for change in (dict(sampling_probability=0.0), dict(group_size=0), dict(neighbouring="none")):
        with pytest.raises(errors.RustleError):
            planned(**change)


def test_group_sizes():
    assert group_sizes.els(SIZES) == 5 and group_sizes.els([0, 0, 1]) == 1
    random = np.random.default_rng(0)
    users = [random.normal(size=(64, 50)) for _ in range(40)]
    one, many = (group_sizes.typical_norm(users, size, random) for size in (1, 16))
    assert one == pytest.approx(50**0.5, rel=0.1) and many == pytest.approx(one / 4, rel=0.2)
    promise = dict(iterations=50, epsilon=2.0, delta=1e-5)
    # Records of a user that say the same: nothing is won by more of them, until there are no more users.
    assert group_sizes.uls(64, 1000, lambda size: 1.0, **promise) == (1, 64)
    assert group_sizes.uls(64, 16, lambda size: 1.0, **promise) == (4, 16)
    # Independent ones halve the noise by every four.
    group, cohort = group_sizes.uls(256, 300, lambda size: size**-0.5, **promise)
    assert group > 1 and group * cohort == 256
    for call in (
        lambda: group_sizes.els([]),
        lambda: group_sizes.uls(8, 10, lambda size: 1.0, start=(4, 4), **promise),
        lambda: group_sizes.typical_norm([], 1, random),
        lambda: group_sizes.typical_norm([np.zeros(3)], 1, random),
    ):
        with pytest.raises(errors.InvalidArgument):
            call()


def test_b_min_sep_has_a_statement():
    plan = rustle.plan(
        float=True,
        iterations=16, epsilon=4, delta=1e-4, min_sep=4, max_participations=4, mechanism="band-mf", size=4
    ).replace(dimension=10)
    sampling = BMinSep(4, 0.1, True, 20_000, 7)
    found = json.loads(rustle.report(plan, delta=1e-4, batches=sampling, format="json"))
    assert found["guarantees"][0]["epsilon"] < 0.8 * 4
    assert found["without_sampling"]["guarantees"][0]["epsilon"] == pytest.approx(4)
    assert "b-min-sep" in rustle.report(plan, delta=1e-4, batches=sampling)
    for bad in (
        ("b-min-sep", 4, 0.1),
        BMinSep(2, 0.1, True, 1000, 7),
        BMinSep(4, 1.5, True, 1000, 7),
    ):
        with pytest.raises(errors.InvalidArgument):
            rustle.report(plan, delta=1e-4, batches=bad)


def test_a_cap_is_charged_for_or_not_amplified():
    """A record that joins a full batch pushes another one out."""
    setting = dict(iterations=24, epsilon=3.0, delta=1e-5, min_sep=4, max_participations=6)
    banded = rustle.plan(float=True, **setting, mechanism="band-mf", size=4)
    drawn = lambda scheme: rustle.Batches(scheme, 100, 24, SEED)
    split = drawn(schemes.cyclic_poisson(4, 0.02, "equal-split", cap=3))
    assumed = _assumptions.sampling_of(banded, split)
    assert assumed == CyclicPoisson(0.02, "equal-split", 3, 100)
    capped, whole = (
        json.loads(rustle.report(banded, delta=1e-5, batches=sampling, format="json"))["guarantees"][0]["epsilon"]
        for sampling in (assumed, CyclicPoisson(0.02, "equal-split"))
    )
    assert capped > 1.1 * whole
    # The sizes of independent groups are secret.
    secret = drawn(schemes.cyclic_poisson(4, 0.02, cap=3))
    assert _assumptions.sampling_of(banded, secret) is None
    with pytest.raises(errors.AccountingError, match="independent groups"):
        rustle.report(banded, delta=1e-5, batches=CyclicPoisson(0.02, "independent", 3, 100))
    with pytest.raises(errors.InvalidArgument, match="both or neither"):
        rustle.report(banded, delta=1e-5, batches=CyclicPoisson(0.02, batch_cap=3))
    for scheme in (schemes.balls_in_bins(4, cap=3), schemes.b_min_sep(4, 0.1, cap=3)):
        event = drawn(scheme).event
        assert event["account"] == "any-order-public-size" and event["neighbouring"] == ["zero-out", "replace"]
        assert _assumptions.sampling_of(banded, drawn(scheme)) is None
    single = drawn(schemes.poisson(0.02, cap=3))
    identity = rustle.plan(float=True, **{**setting, "min_sep": 1, "max_participations": 24}, mechanism="identity")
    assert _assumptions.sampling_of(identity, single) == CyclicPoisson(0.02, "independent", 3, 100)


def test_adding_and_removing_needs_a_public_divisor(opened, tmp_path):
    """A sum divided by q·N reveals N."""
    for scheme, size in [(schemes.uls(3, schemes.poisson(Q)), 1), (schemes.els(4, Q), 4)]:
        session = opened(planned(size))[0]
        training = user_level.Training(session, batches(scheme))
        assert training.divisor == training.expected_size
        for ask in (training.epsilon, lambda delta, **of: training.report(tmp_path / "no.md", delta=delta, **of)):
            with pytest.raises(errors.AccountingError, match="divide_by"):
                ask(1e-5, neighbouring="add-remove")
        with pytest.raises(errors.AccountingError, match="divide_by"):
            session.report(delta=1e-5, neighbouring="add-remove")
        assert training.epsilon(1e-5) == pytest.approx(3.0, rel=1e-3)

        session, noise = opened(planned(size))
        training = user_level.Training(session, batches(scheme), divide_by=8)
        assert training.divisor == 8
        round, ids = next(iter(training))
        assert np.allclose(training.noisy_mean(round, np.zeros((len(ids), DIMENSION))), noise[round] / 8, atol=1e-6)
        assert training.epsilon(1e-5, neighbouring="add-remove") == pytest.approx(3.0, rel=1e-3)
        said = training.report(tmp_path / "yes.md", delta=1e-5, neighbouring="add-remove")
        assert ("constants that are public" if size == 1 else "a public constant") in said
        for bad in (0, -1, float("nan"), float("inf")):
            with pytest.raises(errors.InvalidArgument, match="divide_by"):
                user_level.Training(opened(planned(size))[0], batches(scheme), divide_by=bad)

    # Batches of a fixed order depend on how many users there are, whatever sums are divided by.
    session = opened(planned())[0]
    training = user_level.Training(session, batches(schemes.uls(3, schemes.fixed_order(1))), divide_by=8)
    with pytest.raises(errors.AccountingError, match="how many records"):
        training.epsilon(1e-5, neighbouring="add-remove")


def test_sampling_is_amplified_where_groups_are_as_many_as_bands():
    """A statement knows a rate, and takes it for that of as many groups as C has bands."""
    drawn = lambda bands: rustle.Batches(schemes.cyclic_poisson(bands, 0.02), 100, 24, SEED)
    setting = dict(iterations=24, epsilon=3.0, delta=1e-5, min_sep=4, max_participations=6)
    for mechanism, size, amplified in [("band-mf", 4, [4]), ("identity", None, []), ("blt", 2, [])]:
        plan = rustle.plan(float=True, **setting, mechanism=mechanism, size=size)
        for bands in (4, 8):
            expected = CyclicPoisson(0.02) if bands in amplified else None
            assert _assumptions.sampling_of(plan, drawn(bands)) == expected


@pytest.mark.parametrize("kind", ["uls", "els"])
def test_a_statement_needs_no_file(tmp_path, kind):
    scheme = schemes.els(2, 0.1) if kind == "els" else schemes.uls(2, schemes.fixed_order(4))
    plan = rustle.plan(
        float=True, iterations=12, epsilon=6, delta=1e-5, min_sep=1, max_participations=12, mechanism="identity", dimension=3
    )
    (tmp_path / "run").mkdir()
    plan.save(tmp_path / "run" / "plan.toml")
    with rustle.connect(f"inproc://{tmp_path / 'run'}") as session:
        training = user_level.Training(session, rustle.Batches(scheme, [2] * 20, 12, bytes(32)))
        text = training.report(delta=1e-5)
        assert training.report(tmp_path / "report.md", delta=1e-5) == text == (tmp_path / "report.md").read_text()
        with pytest.raises(errors.InvalidArgument, match="format is 'pdf'|format.*pdf"):
            training.report(delta=1e-5, format="pdf")
        if kind == "uls":
            assert training.report(delta=1e-5, format="json").startswith("{")
