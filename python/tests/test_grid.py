"""Plans on a grid in a session: sums that are rounded, integers that are added, and what is refused."""

import functools
import math

import numpy as np
import pytest

import rustle
import rustle.user_level
from conftest import BINARY, Cluster, prepared
from grids import coarse, opened, released, rows_of
from rustle.errors import InvalidArgument, RustleError

DIMENSION, STEPS = 2600, 9
KAPPA = 1e-4


def grid_plan(rounding=None, dimension=DIMENSION, kappa=KAPPA, mechanism="band-mf", size=3, **changes):
    chosen = dict(
        iterations=STEPS, epsilon=4, delta=1e-5, min_sep=3, max_participations=3, clip_norm=2.0, dimension=dimension
    )
    chosen.update(changes)
    return rustle.plan(mechanism=mechanism, size=size, summing_error=kappa, rounding=rounding, **chosen)


def sum_of(step, scale=1.0):
    return np.random.default_rng(step).normal(0, scale, DIMENSION).astype(np.float32)


def own(step):
    return rustle.Commitment.declared(b"test" + bytes([step]))


def row_of(session, step):
    noise = np.empty(session.dimension, np.int32)
    return session.fetch_into(step, noise, commitment=own(step))


@pytest.mark.parametrize("divide_by", [1.0, 8.0, 3.0])
def test_a_sum_is_rounded_and_integers_are_added(tmp_path, divide_by):
    plan = grid_plan("nearest")
    step_size = 2.0 ** plan.grid["step"]
    with opened(tmp_path / "run", plan) as session:
        for step in range(STEPS):
            noise = row_of(session, step)
            total = sum_of(step, 0.3)
            # Ties and their neighbours too.
            total[:64] = (np.arange(64) - 32.5) * step_size
            expected = released(total, noise, plan, divide_by)
            session.privatize_(total, step, commitment=own(step), divide_by=divide_by)
            assert (total == expected).all()


@pytest.mark.parametrize("mechanism, size", [("identity", None), ("blt", 2), ("band-mf", 3), ("band-inverse", 3), ("tree", None)])
def test_rows_are_those_that_the_command_line_makes(tmp_path, mechanism, size):
    plan = grid_plan(mechanism=mechanism, size=size)
    with opened(tmp_path / "run", plan) as session:
        found = np.stack([row_of(session, step) for step in range(STEPS)])
        rows = rows_of(session, tmp_path / "run", STEPS)
    assert (rows == found).all()
    deviation = np.std(rows[0].astype(np.float64)) * 2.0 ** plan.grid["step"]
    # Row 0 is s·Z/C₀₀, and C₀₀ of a banded plan is below 1.
    assert 0.8 < deviation / (plan.noise_multiplier * plan.clip_norm) < 1.3


def test_micro_batches_add_up_to_what_one_rounded_sum_is(tmp_path):
    plan = grid_plan("nearest")
    step_size = 2.0 ** plan.grid["step"]
    parts = [sum_of(seed, 0.1) for seed in range(5)]
    total = rustle.grid.Sum(plan)
    for part in parts:
        total.add(part)
    expected = sum(np.rint(part.astype(np.float64) / step_size).astype(np.int64) for part in parts)
    assert (total.value == expected).all()
    with opened(tmp_path / "run", plan) as session:
        noise = row_of(session, 0)
        noised = session.release_(total.value, 0, commitment=own(0))
        assert (noised == expected + noise).all()
        floats = rustle.grid.to_float(noised, plan, divide_by=4.0)
        assert (floats == (noised * step_size / 4.0).astype(np.float32)).all()
        # The same row for other integers would release their difference.
        with pytest.raises(rustle.errors.CommitmentRefused):
            session.release_(expected + 1, 0, commitment=own(0))
    total.clear()
    assert not total.value.any()


def test_dither_moves_a_sum_by_less_than_a_step_and_is_fresh_in_every_row(tmp_path):
    plan = coarse(grid_plan("dithered"))
    step_size = 2.0 ** plan.grid["step"]
    sums = (np.linspace(-3.0, 3.0, DIMENSION) * step_size).astype(np.float32)
    exact = sums.astype(np.float64) / step_size
    moves = []
    with opened(tmp_path / "run", plan) as session:
        for step in range(6):
            noise, total = row_of(session, step), sums.copy()
            session.privatize_(total, step, commitment=own(step))
            rounded = total.astype(np.float64) / step_size - noise
            assert (rounded == np.rint(rounded)).all()
            assert (np.abs(rounded - exact) < 1).all()
            moves.append(rounded)
    between = np.abs(exact - np.floor(exact) - 0.5) < 0.3
    differ = np.ptp(np.array(moves)[:, between], axis=0) > 0
    # All six alike: at most 0.8^6 + 0.2^6 = 0.26 of them.
    assert differ.mean() > 0.6


def test_the_mean_of_dithered_sums_is_the_sum(tmp_path):
    plan = coarse(grid_plan("dithered"))
    step_size = 2.0 ** plan.grid["step"]
    with opened(tmp_path / "run", plan) as session:
        for step, share in enumerate([0.25, -0.25, 1.5]):
            noise = row_of(session, step)
            total = np.full(DIMENSION, share * step_size, np.float32)
            session.privatize_(total, step, commitment=own(step))
            up = total.astype(np.float64) / step_size - noise - math.floor(share)
            assert set(up) == {0.0, 1.0}
            chance = share - math.floor(share)
            assert abs(up.mean() - chance) < 5 * math.sqrt(chance * (1 - chance) / DIMENSION)


def test_contributions_are_integers_within_the_clip_norm(tmp_path):
    plan = grid_plan("contributions", kappa=None)
    most = plan.clip_norm / 2.0 ** plan.grid["step"]
    values = [sum_of(seed, 10.0) for seed in range(3)]
    found = [rustle.grid.contribution(value, plan) for value in values]
    for one in found:
        assert one.dtype == np.int64
        assert sum(int(v) ** 2 for v in one) <= most**2
        assert np.linalg.norm(one.astype(np.float64)) > 0.999 * most
    small = np.zeros(DIMENSION, np.float32)
    small[7] = 0.5
    assert rustle.grid.contribution(small, plan)[7] == round(0.5 / 2.0 ** plan.grid["step"])
    with opened(tmp_path / "run", plan) as session:
        noise = row_of(session, 0)
        assert (session.release_(sum(found), 0, commitment=own(0)) == sum(found) + noise).all()
        with pytest.raises(InvalidArgument, match="rustle.grid.contribution"):
            session.privatize_(np.zeros(DIMENSION, np.float32), 1)


@pytest.mark.parametrize("norm_dtype", ["float64", "float32"])
def test_the_summing_error_covers_norms_in_any_order(norm_dtype):
    """One clipped contribution whose squares are added one after the other: in float32 3e-4 are lost, and covered."""
    values = np.full(2**20, 0.1, np.float32)
    norm = np.sqrt(np.cumsum(np.square(values.astype(norm_dtype)), dtype=norm_dtype)[-1])
    clipped = values * np.float32(1 / norm)
    found = np.linalg.norm(clipped.astype(np.float64)) - 1
    assert found <= rustle.grid.summing_error(1, values.size, norm_dtype=norm_dtype)
    assert norm_dtype == "float64" or found > 1e-4 > rustle.grid.summing_error(1, values.size, norm_dtype="float64")


def test_a_grid_whose_rounding_takes_the_clip_norm_is_no_plan():
    """So that rustle.grid.contribution never has to clip to less than nothing."""
    plan = grid_plan("contributions", kappa=None, mechanism="identity", size=None)
    step = math.ceil(math.log2(2 * plan.clip_norm / math.sqrt(DIMENSION)))
    text = plan.to_toml().replace(f"step = {plan.grid['step']}", f"step = {step}")
    text = text.replace(f"noise_multiplier = {plan.noise_multiplier}", "noise_multiplier = 16.0")
    with pytest.raises(rustle.errors.PlanError, match="take a smaller step"):
        rustle.Plan.from_toml(text)


def test_squares_are_exact():
    values = np.array([-(2**34), 2**34 - 1, -1, 3, 2**20, -(2**20) + 1] * 9000, np.int64)
    assert rustle.grid._squares(values) == sum(int(v) ** 2 for v in values)


def test_the_account_is_kept():
    for rounding, kappa in [("nearest", KAPPA), ("dithered", KAPPA), ("contributions", None), (None, 1e-2)]:
        plan = grid_plan(rounding, kappa=kappa)
        found = plan.privacy(1e-5)["epsilon"]
        assert 3.9 < found <= 4.0, (rounding, found)
        assert plan.grid["clip_norm_accounted"] >= plan.clip_norm
        assert rounding is None or plan.grid["rounding"] == rounding
        assert plan.grid["noise_multiplier_accounted"] <= plan.noise_multiplier


def test_the_summing_error_is_the_bound_of_its_page():
    kappa = functools.partial(rustle.grid.summing_error, norm_dtype="float64")
    assert kappa(8, 1_000_000) == pytest.approx(2 * 8 * 8 * 2**-24, rel=0.3)
    assert kappa(32, 1_000_000) == pytest.approx(1.2e-4, rel=0.05)
    assert kappa(1024, 1_000_000, roundings=11) == pytest.approx(1.34e-3, rel=0.01)
    assert kappa(32, 1_000_000, dtype="float64") < 1e-10
    # Norms that are accumulated in float64 cost 8 roundings of float32, in float32 half a rounding a coordinate.
    assert kappa(1, 1_000_000) == pytest.approx((8 + 2) * 2**-24, rel=0.01)
    assert kappa(1, 1_000_000, norm_dtype="float32") == pytest.approx(math.expm1(5e5 * 2**-24), rel=1e-3)
    # What is not said is the larger of both.
    assert rustle.grid.summing_error(1, 1_000_000) == kappa(1, 1_000_000, norm_dtype="float32")
    for bad in (dict(norm_dtype="bfloat16"), dict(dimension=2**24, norm_dtype="float32")):
        with pytest.raises(InvalidArgument, match="norm_dtype"):
            kappa(**{"records": 1, "dimension": 1_000_000, **bad})
    with pytest.raises(InvalidArgument, match="bfloat16.*float32|allowed: float32"):
        kappa(8, 10, dtype="bfloat16")
    with pytest.raises(InvalidArgument, match="micro-batches"):
        kappa(2**24, 10)
    # Sums in another order differ by less than is said.
    rng = np.random.default_rng(5)
    records = rng.normal(size=(32, 1000)).astype(np.float32)
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    whole = records.sum(axis=0, dtype=np.float32).astype(np.float64)
    without = records[1:].sum(axis=0, dtype=np.float32).astype(np.float64)
    assert np.linalg.norm(whole - without) <= 1 + kappa(32, 1000)


def test_what_a_grid_refuses_leaves_the_sum_as_it_was(tmp_path):
    plan = grid_plan("nearest")
    with opened(tmp_path / "run", plan) as session:
        for bad in [math.nan, math.inf, -3e38]:
            total = sum_of(0)
            total[17] = bad
            before = total.copy()
            with pytest.raises(InvalidArgument, match="finite"):
                session.privatize_(total, 0)
            assert np.array_equal(total, before, equal_nan=True) and session.next_step == 0
        with pytest.raises(InvalidArgument, match="int32"):
            session.fetch_into(0, np.empty(DIMENSION, np.float32))
        with pytest.raises(RustleError) as refused:
            session._native.fetch_into(0, np.empty(DIMENSION, np.float32), 0, None)
        assert refused.value.kind == "grid_rows_are_integers" and "int32" in str(refused.value)
        with pytest.raises(InvalidArgument, match="int64"):
            session.release_(np.zeros(DIMENSION, np.int32), 0)
        with pytest.raises(InvalidArgument, match="2\\^47"):
            session.release_(np.full(DIMENSION, 2**48, np.int64), 0)
        assert session.next_step == 0
    with opened(tmp_path / "dithered", grid_plan("dithered")) as session:
        with pytest.raises(InvalidArgument, match="dithered"):
            session.release_(np.zeros(DIMENSION, np.int64), 0)
        with pytest.raises(InvalidArgument, match="privatize_"):
            rustle.grid.Sum(session.plan)
    float_plan = rustle.plan(
        float=True,
        iterations=STEPS, epsilon=4, delta=1e-5, min_sep=3, max_participations=3, mechanism="identity", dimension=DIMENSION
    )
    assert float_plan.grid is None
    with opened(tmp_path / "float", float_plan) as session:
        with pytest.raises(InvalidArgument, match="no \\[grid\\]"):
            session.release_(np.zeros(DIMENSION, np.int64), 0)
        with pytest.raises(InvalidArgument, match="float32"):
            session.fetch_into(0, np.empty(DIMENSION, np.int32))
    with pytest.raises(InvalidArgument, match="summing_error"):
        float_plan.on_grid()
    with pytest.raises(InvalidArgument, match="nearest, dithered, contributions"):
        float_plan.on_grid(KAPPA, "stochastic")


def test_plans_are_on_a_grid_or_say_what_they_lack():
    run = dict(iterations=STEPS, epsilon=4, delta=1e-5, min_sep=3, max_participations=3, mechanism="band-mf", size=3)
    ways = "batch_size.*summing_error.*contributions.*float=True"
    for given, said in [
        ({}, "dimension and parameters are missing.*float=True"),
        ({"batch_size": 8}, "dimension and parameters are missing"),
        ({"dimension": 50}, ways),
        ({"parameters": [("w", (5, 10))]}, ways),
        ({"dimension": 50, "rounding": "nearest"}, ways),
        ({"dimension": 50, "rounding": "dithered"}, ways),
        ({"dimension": 50, "batch_size": 8, "summing_error": 0.1}, "one of them"),
        ({"dimension": 50, "batch_size": 8, "rounding": "contributions"}, "its sums are exact"),
        ({"dimension": 50, "batch_size": 9000}, "summing_error"),
        ({"dimension": 50, "batch_size": 0}, "batch_size is 0"),
        ({"dimension": 50, "batch_size": 8, "norm_dtype": "float16"}, "norm_dtype is 'float16'"),
        ({"dimension": 2**25, "batch_size": 8}, "norms accumulated in float64"),
        ({"dimension": 50, "batch_size": 8, "float": True}, "batch_size is 8 and float is True"),
        ({"dimension": 50, "summing_error": 0.1, "float": True}, "summing_error is 0.1 and float is True"),
    ]:
        for make in (rustle.plan, rustle.suggest):
            chosen = {name: value for name, value in run.items() if make is rustle.plan or name not in ("mechanism", "size")}
            with pytest.raises(RustleError, match=said):
                make(**chosen, **given)
    plan = rustle.plan(**run, parameters=[("w", (5, 10))], batch_size=8)
    assert plan.grid["summing_error"] == rustle.grid.summing_error(8, 50)
    plan = rustle.plan(**run, dimension=50, batch_size=8, norm_dtype="float64")
    assert plan.grid["summing_error"] == rustle.grid.summing_error(8, 50, norm_dtype="float64")
    assert rustle.plan(**run, dimension=50, rounding="contributions").grid["rounding"] == "contributions"
    assert rustle.plan(**run, float=True).grid is None
    for plan in (plan.replace(noise_multiplier=900.0), plan.replace(clip_norm=900.0)):
        # Another scale has a step of its own, and the account of as much noise.
        assert 2.0**22 < plan.noise_multiplier * plan.clip_norm / 2.0 ** plan.grid["step"] <= 2.0**27


def test_mechanisms_are_weighed_for_a_grid():
    run = dict(iterations=64, epsilon=4, delta=1e-5, min_sep=16, max_participations=4, dimension=1000)
    entries = rustle.suggest(**run, summing_error=0.01)
    floats = {entry["mechanism"]: entry for entry in reversed(rustle.suggest(**run, float=True))}
    assert [entry["recommended"] for entry in entries].count(True) == 1
    for entry in entries:
        assert entry["plan"].grid["summing_error"] == 0.01
        assert 3.99 < entry["plan"].privacy(1e-5)["epsilon"] <= 4.0 + 1e-9
    blt = next(entry for entry in entries if entry["mechanism"] == "blt")
    # A buffer is binary64.
    assert blt["state_bytes_per_parameter"] in [8 * buffers for buffers in (2, 3, 4, 6)] and "blt" in floats


def test_amplified_plans_keep_their_promise_on_a_grid():
    run = dict(iterations=64, epsilon=2, delta=1e-5, min_sep=1, max_participations=64, dimension=1000)
    plan = rustle.plan(**run, sampling_probability=0.02, summing_error=0.01)
    assert plan.grid["summing_error"] == 0.01
    event = rustle.event(plan, sampling_probability=0.02)
    found = rustle.epsilon(event, delta=1e-5)
    assert 1.9 < found <= 2.0, found
    # Without what the grid costs more than was promised would be spent.
    kept = rustle.plan(**run, sampling_probability=0.02, float=True)
    spent = rustle.event(kept.on_grid(0.01), sampling_probability=0.02)
    assert rustle.epsilon(spent, delta=1e-5) > 2.0


def test_add_remove_has_no_account_on_a_grid(tmp_path):
    plan = grid_plan("nearest")
    for ask in (
        lambda: rustle.report(plan, neighbouring="add-remove"),
        lambda: rustle.user_level.plan(
            iterations=9, epsilon=4, delta=1e-5, sampling_probability=0.1, dimension=9, batch_size=3, neighbouring="add-remove"
        ),
    ):
        with pytest.raises(RustleError, match="add-remove.*zero-out.*bits of other gradients"):
            ask()
    with opened(tmp_path / "run", plan) as session:
        with pytest.raises(RustleError, match="add-remove.*bits of other gradients"):
            session.report(neighbouring="add-remove")
        assert "Zero-out" in session.report(neighbouring="zero-out")


def test_ranks_round_apart_so_that_their_rounds_have_no_add_remove(tmp_path):
    """Batches are shared out by place: without a record those after it move, and every rank's rounding changes."""
    batch = {0: 0.15, 1: 0.3, 2: 0.4, 3: 0.3, 4: 0.15}
    batches = rustle.Batches(rustle.schemes.fixed_order(3), 15, STEPS, bytes(32))
    with opened(tmp_path / "run", grid_plan("nearest")) as session:
        shared_out = [rustle.Rounds(batches, session, rank=rank, ranks=2).share for rank in range(2)]

        def released(without=None, out=None):
            ids = np.array([record for record in batch if record != out])
            sums = [sum(batch[record] for record in of(ids) if record != without) for of in shared_out]
            return sum(round(one) for one in sums)

        # Steps of the grid that one record's 0.4 may move: itself, and one rounding (docs/grid.md). Its removal moves two.
        assert abs(released() - released(without=2)) <= 1.4 < abs(released() - released(out=2)) == 2
        with pytest.raises(RustleError, match="add-remove"):
            session.report(neighbouring="add-remove")


def test_a_dithered_session_without_its_seed_replays_nothing(tmp_path):
    """The seed is in the cursor's secret: without it a sum would be rounded again, by other dither under the same noise."""
    plan = grid_plan("dithered")
    with opened(tmp_path / "run", plan) as session:
        session.privatize_(sum_of(0), 0, commitment="exact")
        cursor = session.cursor(0)
    with opened(tmp_path / "run", plan) as session:
        total = sum_of(0)
        with pytest.raises(InvalidArgument, match="without a secret.*as session.cursor\\(\\) returned it"):
            # Tag, secret and checksum come before the ledger's own cursor.
            session.resume(cursor[1 + 32 + 4 :], replay=True)
        # Nor does a secret of the new session: the row is bound to another commitment.
        with pytest.raises(RustleError):
            session.privatize_(total, 0, commitment="exact")
        assert (total == sum_of(0)).all()


def test_a_run_that_resumes_rounds_its_sums_as_before(tmp_path):
    plan = grid_plan("dithered")
    sums = [sum_of(step) for step in range(4)]
    released = []
    with opened(tmp_path / "run", plan) as session:
        for step, total in enumerate(sums):
            released.append(session.privatize_(total.copy(), step, commitment="exact"))
        cursor = session.cursor(2)
    with opened(tmp_path / "run", plan) as session:
        assert session.resume(cursor, replay=True) is False
        again = [session.privatize_(sums[step].copy(), step, commitment="exact") for step in (2, 3)]
    # Dither belongs to the cursor's secret, the branch and the row.
    assert all((a == b).all() for a, b in zip(again, released[2:], strict=True))


def test_skipped_steps_take_their_rows_along(tmp_path):
    with opened(tmp_path / "run", grid_plan("nearest")) as session:
        session.skip()
        assert session.next_step == 1


@pytest.mark.parametrize("scheme", ["unix", "shm"])
def test_a_cluster_serves_what_the_engine_in_a_process_makes(tmp_path, scheme):
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    plan = grid_plan(mechanism="blt", size=2)
    sums = [sum_of(step) for step in range(STEPS)]
    with rustle.connect(f"inproc://{prepared(tmp_path / 'own', plan)}") as session:
        rows = [row_of(session, step) for step in range(STEPS)]
        expected = [session.privatize_(sums[step].copy(), step, commitment=own(step)) for step in range(STEPS)]
    cluster = Cluster(prepared(tmp_path / "served", plan))
    try:
        with rustle.connect(cluster.url(scheme)) as session:
            assert session.is_on_grid and session.plan.grid == plan.grid
            for step in range(STEPS):
                if step % 3 == 1:
                    session.reserve(steps=2, commitment=own)
                noise = row_of(session, step)
                assert (noise == rows[step]).all()
                found = session.privatize_(sums[step].copy(), step, commitment=own(step))
                assert (found == expected[step]).all()
            with pytest.raises(InvalidArgument, match="int32"):
                session.fetch_into(0, np.empty(DIMENSION, np.float32), commitment=own(0))
    finally:
        cluster.stop()
