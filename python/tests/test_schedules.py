"""Clip norms and noise that change from step to step as was fixed before: rows, sums that are refused, accounts, adapters."""

import json
import math

import numpy as np
import pytest
from conftest import prepared, rows
from misuse import SIZE, STEPS, EngineTraining, Training, batches, planned

import rustle
from rustle import errors
from rustle.federated import Server, Sgd

DIMENSION = 40
NORMS = [2.0 * 0.8**step for step in range(STEPS)]


@pytest.fixture
def session(tmp_path):
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=DIMENSION, clip_norm=0.5)}") as session:
        yield session


@pytest.fixture
def noise(tmp_path):
    """The rows of a session without a schedule."""
    with rustle.connect(f"inproc://{planned(tmp_path / 'twin', dimension=DIMENSION, clip_norm=0.5)}") as twin:
        return rows(twin, STEPS)


def ratio(step):
    return NORMS[step] / 0.5


@pytest.mark.parametrize("commitment", ["declared", "exact"])
def test_noise_is_the_plans_in_units_of_each_steps_norm(session, noise, commitment):
    session.schedule_clip_norms(NORMS)
    for step in range(STEPS):
        assert session.clip_norm == NORMS[step] == session.clip_norm_at(step)
        sum = np.full(DIMENSION, 0.25, np.float32)
        session.privatize_(sum, step, commitment=commitment, divide_by=3.0)
        assert np.allclose(sum, 0.25 + noise[step] * ratio(step) / 3, rtol=1e-5, atol=1e-6)
    assert session.clip_norm == NORMS[-1]


def test_fetched_rows_are_scaled_too(session, noise):
    session.schedule_clip_norms(lambda step: NORMS[step])
    for step in range(STEPS):
        row = session.fetch_into(step, np.empty(DIMENSION, np.float32))
        assert np.allclose(row, noise[step] * ratio(step), rtol=1e-5)


def test_scaled_back_the_released_sums_are_those_of_the_plan(tmp_path):
    """Prefix sums over many coordinates: what is released, times ζ/C_t, has the plan's covariance."""
    dimension = 60_000
    folder = planned(tmp_path / "run", dimension=dimension, clip_norm=0.5)
    with rustle.connect(f"inproc://{folder}") as session:
        session.schedule_clip_norms(NORMS)
        released = np.stack([session.privatize_(np.zeros(dimension, np.float32), step) for step in range(STEPS)])
        plan = session.plan
    units = released.astype(np.float64) / np.array(NORMS)[:, None] / plan.noise_multiplier
    columns = json.loads(plan.to_toml().split("columns = ")[1].splitlines()[0])
    matrix = np.zeros((STEPS, STEPS))
    for j, column in enumerate(columns):
        for i, value in enumerate(column[: STEPS - j]):
            matrix[j + i, j] = value
    white = matrix @ units
    found = white @ white.T / dimension
    # Entries of a Wishart matrix: standard deviation √((1 + δ_ij)/d).
    assert np.abs(found - np.eye(STEPS)).max() < 6 * math.sqrt(2 / dimension)


def test_sums_are_bounded_by_the_norm_of_their_step(session):
    session.schedule_clip_norms(NORMS)
    for step, ids in enumerate(rustle.Rounds(batches(), session)):
        whole = np.full(DIMENSION, len(ids) * NORMS[step] / math.sqrt(DIMENSION), np.float32)
        with pytest.raises(errors.SumTooLarge, match=f"clipped to {NORMS[step]:g}"):
            session.privatize_(whole * np.float32(1.05), step)
        session.privatize_(whole, step)


def test_the_same_sum_under_another_schedule_is_no_repetition(tmp_path):
    folder = planned(tmp_path / "run", dimension=DIMENSION)
    sum = np.ones(DIMENSION, np.float32)
    with rustle.connect(f"inproc://{folder}") as session:
        session.schedule_clip_norms(NORMS)
        cursor = session.cursor()
        session.privatize_(sum.copy(), 0, commitment="exact")
    # Two multiples of one row, at one sum, would give the sum away.
    for norms in (None, NORMS[::-1]):
        with rustle.connect(f"inproc://{folder}") as again:
            if norms:
                again.schedule_clip_norms(norms)
            with pytest.raises(errors.CursorMismatch, match="the norms that the run began with, before resume"):
                again.resume(cursor, replay=True)
    with rustle.connect(f"inproc://{folder}") as again:
        again.schedule_clip_norms(NORMS)
        again.resume(cursor, replay=True)
        again.privatize_(sum.copy(), 0, commitment="exact")


def test_a_cursor_without_a_schedule_has_none(tmp_path):
    folder = planned(tmp_path / "run", dimension=DIMENSION)
    with rustle.connect(f"inproc://{folder}") as session:
        session.privatize_(np.zeros(DIMENSION, np.float32), 0)
        cursor = session.cursor()
        assert len(cursor) < 512
    with rustle.connect(f"inproc://{folder}") as again:
        again.schedule_clip_norms(NORMS)
        with pytest.raises(errors.CursorMismatch, match="a session without one"):
            again.resume(cursor)
        again.restart()
        again.privatize_(np.zeros(DIMENSION, np.float32), 0)


def test_cursors_name_batches_and_norms(tmp_path):
    folder = planned(tmp_path / "run", dimension=DIMENSION)

    def begun():
        session = rustle.connect(f"inproc://{folder}")
        session.schedule_clip_norms(NORMS)
        return session

    with begun() as session:
        rustle.Rounds(batches(), session)
        cursor = session.cursor()
        assert len(cursor) < 512
    with begun() as again:
        again.resume(cursor)
        with pytest.raises(errors.BatchesChanged):
            rustle.Rounds(batches(bytes(32)), again)
        assert again.cursor()[-137:] == cursor[-137:]


def delivered(session):
    session.fetch_into(0, session.row(DIMENSION), commitment=rustle.Commitment.declared("step 0"))


@pytest.mark.parametrize(
    "begin",
    [
        delivered,
        lambda session: session.privatize_(np.zeros(DIMENSION, np.float32), 0),
        lambda session: session.skip(),
        lambda session: session.reserve(),
        lambda session: session.resume(session.cursor()),
        lambda session: session.join(session.share()),
        lambda session: session.add_to(
            [(0, np.zeros(DIMENSION, np.float32))], 0, (0, DIMENSION), rustle.Commitment.declared("0"), 1.0
        ),
    ],
)
def test_a_schedule_comes_before_the_first_row(session, begin):
    """Else the row of a step could be delivered in two multiples: S + a and S + 2a reveal S."""
    begin(session)
    with pytest.raises(errors.InvalidArgument, match="before the first row"):
        session.schedule_clip_norms(NORMS)
    assert not session.has_clip_schedule


def test_ranks_that_share_rows_have_one_clip_norm(session, monkeypatch):
    import rustle._mpi

    monkeypatch.setattr(rustle._mpi, "_joined", True)
    with pytest.raises(errors.InvalidArgument, match="launch under MPI"):
        session.schedule_clip_norms(NORMS)
    monkeypatch.undo()
    place = session.share()
    session.schedule_clip_norms(NORMS)
    with pytest.raises(errors.InvalidArgument, match="several ranks"):
        session.join(place)


@pytest.mark.parametrize("format", ["markdown", "html", "json"])
def test_the_report_names_the_norms(session, tmp_path, format):
    before = session.report(delta=1e-5, format="json")
    session.schedule_clip_norms(NORMS)
    session.privatize_(np.zeros(DIMENSION, np.float32), 0)
    path = tmp_path / "report"
    text = session.report(path, delta=1e-5, format=format)
    assert path.read_text() == text
    if format == "json":
        said, plain = json.loads(text), json.loads(before)
        assert said["clip_schedule"] == {"first": 2.0, "last": NORMS[-1], "least": NORMS[-1], "most": 2.0}
        promised = lambda one: one["planned"]["guarantees"] if "planned" in one else None
        assert promised(said) == promised(plain)
    else:
        assert "first 2, last 0.171" in text and "Clip norms of a schedule" in text


def refused_schedules():
    return [
        (NORMS[:-1], "11 clip norms"),
        ([*NORMS[:-1], 0.0], "step 11"),
        ([float("nan"), *NORMS[1:]], "step 0"),
        ([1e300, *NORMS[1:]], "step 0"),
        ([1e-44, *NORMS[1:]], "step 0"),
    ]


@pytest.mark.parametrize("norms, match", refused_schedules())
def test_norms_that_are_refused(session, norms, match):
    with pytest.raises(errors.InvalidArgument, match=match):
        session.schedule_clip_norms(norms)
    assert not session.has_clip_schedule and session.clip_norm == 0.5


@pytest.mark.parametrize("planned_norm, norm, is_allowed", [(1e20, 1e-20, False), (1e-20, 1e20, False), (1e20, 1e-10, True)])
def test_ratios_to_the_plans_norm_are_float32(tmp_path, planned_norm, norm, is_allowed):
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=DIMENSION, clip_norm=planned_norm)}") as session:
        if is_allowed:
            session.schedule_clip_norms([norm] * STEPS)
            session.privatize_(np.zeros(DIMENSION, np.float32), 0)
        else:
            with pytest.raises(errors.InvalidArgument, match="step 0.*float32"):
                session.schedule_clip_norms([norm] * STEPS)


def test_a_schedule_comes_once_and_before_a_trainer(session, tmp_path):
    server = Server(session, np.zeros(DIMENSION), clients_per_round=4)
    with pytest.raises(errors.InvalidArgument, match="before a trainer"):
        session.schedule_clip_norms(NORMS)
    session.release(server)
    session.schedule_clip_norms(NORMS)
    with pytest.raises(errors.InvalidArgument, match="one schedule"):
        session.schedule_clip_norms(NORMS)
    plan = session.plan.on_grid(1e-4)
    plan.save(tmp_path / "grid" / "plan.toml")
    with rustle.connect(f"inproc://{tmp_path / 'grid'}") as on_grid:
        with pytest.raises(errors.InvalidArgument, match="allowed: .* in every step.*float=True"):
            on_grid.schedule_clip_norms(NORMS)


def test_a_server_clips_to_the_rounds_norm(session, noise):
    session.schedule_clip_norms(NORMS)
    server = Server(session, np.zeros(DIMENSION), clients_per_round=2, optimizer=Sgd(1.0, 0.0))
    expected = np.zeros(DIMENSION)
    for step in range(3):
        server.step([np.full(DIMENSION, 9.0), np.zeros(DIMENSION)])
        clipped = np.full(DIMENSION, NORMS[step] / math.sqrt(DIMENSION))
        expected = expected + (clipped + noise[step] * ratio(step)) / 2
    assert np.allclose(server.parameters, expected, atol=1e-4)
    # A caller that clipped these did not ask for the round's norm.
    with pytest.raises(errors.InvalidArgument, match="clipped elsewhere"):
        server.apply(np.zeros(DIMENSION))


class Scheduled(Training):
    """The training of the tests of misuse, whose session has a schedule."""

    def __init__(self, folder, **arguments):
        session = rustle.connect(f"inproc://{planned(folder, dimension=39)}")
        session.schedule_clip_norms(NORMS)
        super().__init__(folder, session=session, **arguments)


def test_an_optimizer_has_the_noise_of_its_step(tmp_path):
    pytest.importorskip("torch")
    with rustle.connect(f"inproc://{planned(tmp_path / 'twin', dimension=39)}") as twin:
        plain = rows(twin, STEPS)
    t = Scheduled(tmp_path / "run")
    flat = lambda: np.concatenate([p.grad.numpy().reshape(-1).copy() for p in t.net.parameters()])
    for step, ids in enumerate(t.rounds):
        t.optimizer.zero_grad()
        t.gradients(ids, clip_norm=t.session.clip_norm)
        before = flat()
        t.optimizer.step()
        assert np.allclose(flat() - before, plain[step] * NORMS[step] / SIZE, atol=1e-5)
    assert t.session.next_step == STEPS
    t.session.close()


def test_a_sum_clipped_to_the_plans_norm_is_refused_where_the_steps_is_less(tmp_path):
    pytest.importorskip("torch")
    t = Scheduled(tmp_path / "run")
    for ids in t.rounds:
        if t.session.clip_norm < t.session.plan.clip_norm:
            with pytest.raises(errors.SumTooLarge, match="clip_norm"):
                t.step(ids)
            break
        t.step(ids)
    assert t.session.next_step == 4
    t.session.close()


@pytest.mark.parametrize("scheduler", [False, True])
def test_the_engine_clips_to_the_norm_of_each_step(tmp_path, scheduler):
    pytest.importorskip("opacus")
    from opacus.schedulers import ExponentialGradClip

    t = engine(tmp_path)
    change = ExponentialGradClip(t.optimizer, gamma=0.8) if scheduler else None
    for step, (x, y) in enumerate(t.loader):
        t.step(1e3 * x, y)
        assert t.optimizer.max_grad_norm == NORMS[step]
        if change:
            change.step()
    assert t.session.next_step == STEPS
    t.session.close()


def test_the_engines_sums_are_clipped_and_noised_in_one_unit(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    with rustle.connect(f"inproc://{planned(tmp_path / 'twin', dimension=39)}") as twin:
        plain = rows(twin, STEPS)
    t = engine(tmp_path)
    for step, (x, y) in enumerate(t.loader):
        t.optimizer.zero_grad()
        t.backward(x, y)
        each = torch.cat([p.grad_sample.reshape(len(x), -1) for p in t.net.parameters()], 1)
        total = (each * (NORMS[step] / each.norm(dim=1).clamp(min=NORMS[step]))[:, None]).sum(0)
        t.optimizer.step()
        found = torch.cat([p.grad.reshape(-1) for p in t.net.parameters()]) * SIZE
        assert np.allclose(found, total.numpy() + plain[step] * NORMS[step], atol=1e-3)
    t.session.close()


def test_another_schedule_of_the_engine_is_refused(tmp_path):
    pytest.importorskip("opacus")
    from opacus.schedulers import ExponentialGradClip

    t = engine(tmp_path)
    change = ExponentialGradClip(t.optimizer, gamma=0.9)
    with pytest.raises(errors.InvalidArgument, match="schedule_clip_norms"):
        for x, y in t.loader:
            t.step(x, y)
            change.step()
    assert t.session.next_step == 1
    t.session.close()


def engine(tmp_path, **arguments):
    session = rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=39)}")
    session.schedule_clip_norms(NORMS)
    return EngineTraining(tmp_path / "run", noise=session, **arguments)


def test_ghost_clipping_has_one_norm(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    with pytest.raises(errors.InvalidArgument, match="ghost clipping"):
        engine(tmp_path, grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss())


@pytest.mark.parametrize("jitted", [False, True])
def test_the_privatizer_has_the_noise_of_its_step(session, noise, jitted):
    jax = pytest.importorskip("jax")
    pytest.importorskip("optax")
    import jax.numpy as jnp

    import rustle.jax

    session.schedule_clip_norms(NORMS)
    privatizer = rustle.jax.privatizer(session, divide_by=4)
    rounds = rustle.Rounds(batches(), session)
    state = privatizer.init(jnp.zeros(DIMENSION))
    update = jax.jit(privatizer.update) if jitted else privatizer.update
    for step, ids in enumerate(rounds):
        noisy, state = update(jnp.full(DIMENSION, 0.01), state)
        assert np.allclose(noisy, 0.01 + noise[step] * ratio(step) / 4, atol=1e-5)
    with pytest.raises(Exception, match="step|iterations"):
        update(jnp.zeros(DIMENSION), state)


def test_a_norm_that_is_read_while_a_step_is_traced_is_refused(session):
    jax = pytest.importorskip("jax")
    clipped = lambda norm: jax.numpy.minimum(9.0, norm)
    assert float(jax.jit(lambda: clipped(session.clip_norm))()) == 0.5
    session.schedule_clip_norms(NORMS)
    with pytest.raises(errors.InvalidArgument, match="pass it as an argument"):
        jax.jit(lambda: clipped(session.clip_norm))()
    step = jax.jit(clipped)
    for norm in NORMS[:3]:
        assert session.clip_norm == norm
        assert float(step(session.clip_norm)) == np.float32(norm)
        session.skip()


FACTORS = [0.9**step for step in range(STEPS)]


def flat(mechanism="identity", **changes):
    setting = dict(iterations=STEPS, epsilon=4, delta=1e-5, min_sep=4, max_participations=3, dimension=DIMENSION, float=True)
    return rustle.plan(**setting, mechanism=mechanism, **changes)


@pytest.mark.parametrize("mechanism, size", [("identity", None), ("band-toeplitz", 3), ("band-mf", 3)])
def test_a_noise_schedule_scales_rows(tmp_path, mechanism, size):
    plan = flat(mechanism, size=size)
    scaled = rustle.scale_noise(plan, FACTORS)
    assert scaled.noise_multiplier == plan.noise_multiplier and scaled.mechanism == "band-mf"
    assert (scaled.min_sep, scaled.max_participations, scaled.dimension) == (4, 3, DIMENSION)
    # C by itself: the row of a step times the factor is the row of C with divided columns.
    dense = matrix(plan)
    assert np.allclose(np.linalg.inv(matrix(scaled)), np.array(FACTORS)[:, None] * np.linalg.inv(dense))


def matrix(plan):
    found = np.zeros((STEPS, STEPS))
    for j, column in enumerate(rustle._noise_schedule._columns(plan)):
        for i, value in enumerate(column[: STEPS - j]):
            found[j + i, j] = value
    return found


def test_the_account_of_a_noise_schedule_is_that_of_its_worst_record():
    plan = rustle.scale_noise(flat(), FACTORS)
    # A record takes part in rounds 4 apart, three times: the quietest are 3, 7 and 11.
    worst = math.sqrt(sum(1 / FACTORS[step] ** 2 for step in (3, 7, 11)))
    # Rounded up.
    assert worst <= plan.privacy(1e-5)["sensitivity"] <= worst * (1 + 1e-7)
    gaussian = {"kind": "gaussian", "noise_multiplier": plan.noise_multiplier / worst}
    assert plan.privacy(1e-5)["epsilon"] == pytest.approx(rustle.epsilon(gaussian, delta=1e-5), rel=1e-5)
    kept = rustle.calibrate(plan, epsilon=4, delta=1e-5)
    assert kept.privacy(1e-5)["epsilon"] == pytest.approx(4, rel=1e-5) and kept.noise_multiplier > plan.noise_multiplier


def test_equal_factors_change_nothing(tmp_path):
    plan = flat()
    same = rustle.scale_noise(plan, [1.0] * STEPS)
    assert same.privacy(1e-5)["epsilon"] == pytest.approx(plan.privacy(1e-5)["epsilon"], rel=1e-12)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', rustle.scale_noise(plan, FACTORS))}") as session:
        found = rows(session, STEPS).std(axis=1) / plan.noise_multiplier
    assert np.allclose(found, FACTORS, rtol=5 / math.sqrt(2 * DIMENSION))


@pytest.mark.parametrize(
    "plan, factors, match",
    [
        (lambda: flat(), FACTORS[:-1], "11 factors"),
        (lambda: flat(), [0.0, *FACTORS[1:]], "step 0"),
        (lambda: flat(), [float("inf"), *FACTORS[1:]], "step 0"),
        (lambda: flat("blt", size=2), FACTORS, "blt"),
        (lambda: flat().on_grid(1e-4), FACTORS, "grid"),
    ],
)
def test_noise_schedules_that_are_refused(plan, factors, match):
    with pytest.raises(errors.InvalidArgument, match=match):
        rustle.scale_noise(plan(), factors)
