"""The federated server: McMahan, Xu, Zhang (2024), Algorithm 1, and Xu et al. (2023), Algorithm 1; noise of the right scale, and resumed."""

import numpy as np
import misuse
import pytest
from conftest import prepared, rows

import rustle
from rustle import errors
from rustle.federated import AdaptiveServer, Server, Sgd

ROUNDS, CLIENTS = 12, 10
SHAPES = {"w": (20, 10), "b": (10,)}
DIMENSION = 210


def planned(mechanism="band-mf", dimension=DIMENSION, clip_norm=0.5, **changes):
    size = 4 if mechanism == "band-mf" else None
    setting = dict(iterations=ROUNDS, epsilon=4, delta=1e-5, min_sep=4, max_participations=3)
    found = rustle.plan(float=True, **{**setting, **changes}, mechanism=mechanism, size=size, clip_norm=clip_norm)
    return found.replace(dimension=dimension)


def tree(restarts, dimension, noise_multiplier=1.0):
    found = planned("tree", dimension).with_restarts(restarts, True)
    return found.replace(noise_multiplier=noise_multiplier, clip_norm=3.0)


@pytest.fixture
def twin(tmp_path):
    """A plan's session, and the rows that it is going to give."""
    opened = []

    def make(plan):
        with rustle.connect(f"inproc://{prepared(tmp_path / f'twin{len(opened)}', plan)}") as session:
            expected = rows(session, ROUNDS).astype(np.float64)
        opened.append(rustle.connect(f"inproc://{prepared(tmp_path / f'run{len(opened)}', plan)}"))
        return opened[-1], expected

    yield make
    for session in opened:
        session.close()


def updates(round, size=3.0, dimension=DIMENSION):
    drawn = np.random.default_rng(round).normal(size=(CLIENTS, dimension))
    return size * drawn / np.sqrt(dimension)


def clipped(update, norm):
    return update * min(1, norm / np.linalg.norm(update))


def test_rounds_are_those_of_the_algorithm(twin):
    session, noise = twin(planned())
    first = np.linspace(-1, 1, DIMENSION)
    server = Server(session, first, clients_per_round=8, optimizer=Sgd(0.7, 0.9))
    model, velocity = first, np.zeros(DIMENSION)
    for round in range(ROUNDS):
        assert server.round == round
        server.step(updates(round))
        total = sum(clipped(update, 0.5) for update in updates(round))
        velocity = 0.9 * velocity + (total + noise[round]) / 8
        model = model + 0.7 * velocity
        assert np.allclose(server.parameters, model, rtol=0, atol=1e-6)
    assert noise.std() > 0.1


def test_momentum_is_that_of_prefix_sums(twin):
    session, noise = twin(planned("tree"))
    server = Server(session, np.zeros(DIMENSION), clients_per_round=CLIENTS, optimizer=Sgd(0.3, 0.9))
    sums = np.zeros(DIMENSION)
    smooth = np.zeros(DIMENSION)
    for round in range(ROUNDS):
        server.step(updates(round))
        # Xu et al. (2023), Algorithm 1: PrivateSum is the noisy sum of all rounds so far.
        sums = sums + sum(clipped(update, 0.5) for update in updates(round)) + noise[round]
        smooth = 0.9 * smooth + sums / CLIENTS
        assert np.allclose(server.parameters, 0.3 * smooth, rtol=0, atol=1e-6)


@pytest.mark.parametrize("divided_by", [1.0, 7.0])
def test_a_mean_gets_the_noise_of_its_sum(twin, divided_by):
    session, noise = twin(planned())
    server = Server(session, np.zeros(DIMENSION), clients_per_round=7, optimizer=Sgd(1.0, 0.0))
    total = np.linspace(-1, 1, DIMENSION)
    server.apply(total / divided_by, divided_by=divided_by)
    assert np.allclose(server.parameters, (total + noise[0]) / 7, rtol=0, atol=1e-6)


def test_the_noise_of_a_mean_has_its_standard_deviation(twin):
    plan = planned("identity", dimension=40_000, clip_norm=0.25).replace(noise_multiplier=3.0)
    session, _ = twin(plan)
    server = Server(session, np.zeros(40_000), clients_per_round=50, optimizer=Sgd(1.0, 0.0))
    server.apply(np.zeros(40_000))
    assert server.parameters.std() == pytest.approx(3.0 * 0.25 / 50, rel=0.03)


def test_arrays_by_name_keep_their_types_and_the_plans_order(twin):
    session, noise = twin(planned().replace(parameters=[("b", [10]), ("w", [20, 10])]))
    first = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    server = Server(session, first, clients_per_round=1, optimizer=Sgd(1.0, 0.0))
    server.step([{name: np.zeros(shape) for name, shape in SHAPES.items()}])
    got = server.parameters
    assert list(got) == list(SHAPES) and got["w"].dtype == np.float32
    assert np.allclose(got["b"], noise[0][:10]) and np.allclose(got["w"].reshape(-1), noise[0][10:])


def adaptive(session, **changes):
    setting = dict(clients_per_round=CLIENTS, clip_norm=0.8, bit_noise=2.0, optimizer=Sgd(1.0, 0.0))
    return AdaptiveServer(session, np.zeros(DIMENSION), **{**setting, **changes})


def test_adaptive_clipping_is_that_of_the_algorithm(twin):
    plan = tree([5, 9], DIMENSION + 1)
    session, noise = twin(plan)
    server = adaptive(session)
    z_update = (1.0**-2 - (2 * 2.0) ** -2) ** -0.5
    assert server.update_noise_multiplier == pytest.approx(z_update)
    unit = noise / (plan.noise_multiplier * plan.clip_norm)
    model, bits, active, tracked = np.zeros(DIMENSION), 0.0, 0.8, 0.8
    for round in range(ROUNDS):
        size = 0.2 + 0.3 * round
        server.step(updates(round, size))
        given = updates(round, size)
        total = sum(clipped(update, active) for update in given)
        model = model + (total + z_update * active * unit[round, :-1]) / CLIENTS
        below = sum(np.linalg.norm(update) <= tracked for update in given)
        bits += (below - CLIENTS / 2 + 2.0 * unit[round, -1]) / CLIENTS + 0.5
        tracked = 0.8 * np.exp(-0.2 * (bits - (round + 1) * 0.5))
        if round + 1 in (5, 9):
            active = tracked
        assert np.allclose(server.parameters, model, rtol=0, atol=1e-5)
        assert server.tracked_norm == pytest.approx(tracked, rel=1e-5)
        assert server.clip_norm == pytest.approx(active, rel=1e-5)
    assert active != 0.8


class Spy:
    """A session that remembers the sums that it is given."""

    def __init__(self, session):
        self._session, self.sums = session, []

    def __getattr__(self, name):
        return getattr(self._session, name)

    def privatize_(self, values, step, **how):
        self.sums.append(values.astype(np.float64))
        return self._session.privatize_(values, step, **how)


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_one_clients_vector_has_the_plans_norm(twin, size):
    session, _ = twin(tree([5], DIMENSION + 1))
    spy = Spy(session)
    server = adaptive(spy)
    for round in range(ROUNDS):
        server.step([updates(round, size)[0]])
    norms = [np.linalg.norm(total) for total in spy.sums]
    assert max(norms) <= 3.0 * (1 + 1e-6)
    if size == 100.0:
        assert min(norms) == pytest.approx(3.0)


def test_the_clip_norm_finds_the_median(twin):
    plan = planned("identity", DIMENSION + 1, iterations=400, min_sep=1, max_participations=400)
    with_noise = plan.replace(noise_multiplier=0.1)
    session, _ = twin(with_noise)
    server = adaptive(session, clip_norm=0.1, bit_noise=1.0)
    drawn = np.random.default_rng(0)
    for _ in range(150):
        norms = np.exp(drawn.normal(np.log(2.0), 0.5, CLIENTS))
        server.step([np.r_[norm, np.zeros(DIMENSION - 1)] for norm in norms])
    assert server.clip_norm == server.tracked_norm == pytest.approx(2.0, rel=0.35)


def test_what_clients_send_is_what_the_server_would_make(twin, tmp_path):
    plan = tree([5], DIMENSION + 1)
    whole, parts = (adaptive(twin(plan)[0]) for _ in range(2))
    for round in range(ROUNDS):
        sent = [parts.client(update) for update in updates(round)]
        parts.apply(
            sum(update for update, _ in sent) / CLIENTS,
            below=sum(below for _, below in sent),
            clients=CLIENTS,
            divided_by=CLIENTS,
        )
        whole.step(updates(round))
    assert np.allclose(whole.parameters, parts.parameters, atol=1e-5)
    assert whole.tracked_norm == pytest.approx(parts.tracked_norm, rel=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda s, c: Server(s, np.zeros(DIMENSION + 1), clients_per_round=5, commitment=c),
        lambda s, c: adaptive(s, commitment=c),
    ],
)
@pytest.mark.parametrize("commitment", ["exact", "declared"])
def test_going_on_at_a_state(tmp_path, make, commitment):
    plan = tree([3, 7], DIMENSION + 1)
    step = lambda server, round: server.step(
        [np.resize(update, server.parameters.shape) for update in updates(round)]
    )
    with rustle.connect(f"inproc://{prepared(tmp_path / 'whole', plan)}") as session:
        whole = make(session, commitment)
        for round in range(ROUNDS):
            step(whole, round)
    folder = prepared(tmp_path / "parts", plan)
    with rustle.connect(f"inproc://{folder}") as session:
        server = make(session, commitment)
        for round in range(8):
            if round == 4:
                kept, again = server.state_dict(), server.state_dict()
                assert kept["cursor"] == again["cursor"] and np.array_equal(kept["model"], again["model"])
            step(server, round)
    with rustle.connect(f"inproc://{folder}") as session:
        server = make(session, commitment)
        with pytest.raises(errors.NotResumed):
            step(server, 0)
        assert server.load_state_dict(kept) == (commitment == "declared")
        assert server.round == 4
        for round in range(4, ROUNDS):
            step(server, round)
        same = np.array_equal(server.parameters, whole.parameters)
        assert same == (commitment == "exact") and session.branch == (commitment == "declared")


def test_what_is_refused_changes_nothing(twin, tmp_path):
    session, _ = twin(planned())
    for change in (dict(clients_per_round=0), dict(commitment="none")):
        with pytest.raises(errors.InvalidArgument):
            Server(session, np.zeros(DIMENSION), **{"clients_per_round": 1, **change})
    with pytest.raises(errors.LayoutMismatch):
        Server(session, np.zeros(DIMENSION - 1), clients_per_round=1)
    with pytest.raises(errors.PlanError, match="afresh"):
        adaptive(session)
    server = Server(session, np.zeros(DIMENSION), clients_per_round=1)
    with pytest.raises(errors.SessionBusy):
        Server(session, np.zeros(DIMENSION), clients_per_round=1)
    bad = updates(0)
    bad[3, 7] = np.nan
    for call, error in (
        (lambda: server.step(bad), errors.InvalidArgument),
        (lambda: server.apply(np.full(DIMENSION, 1e300)), errors.InvalidArgument),
        (lambda: server.apply(np.zeros(DIMENSION), divided_by=0), errors.InvalidArgument),
        (lambda: server.step([np.zeros((DIMENSION, 1))]), errors.LayoutMismatch),
        (lambda: server.step([{"w": np.zeros(DIMENSION)}]), errors.LayoutMismatch),
        (lambda: server.load_state_dict({**server.state_dict(), "layout": "0"}), errors.LayoutMismatch),
        (lambda: server.load_state_dict({**server.state_dict(), "cursor": b"x"}), errors.RustleError),
    ):
        with pytest.raises(error):
            call()
        assert server.round == 0 and not server.parameters.any()
    with pytest.raises(errors.InvalidArgument):
        Sgd(momentum=1.0)
    quiet, _ = twin(tree([5], DIMENSION + 1))
    for change in (dict(bit_noise=0.5), dict(quantile=1.0), dict(clip_norm=0.0), dict(clip_learning_rate=0)):
        with pytest.raises(errors.InvalidArgument):
            adaptive(quiet, **change)
    with pytest.raises(errors.InvalidArgument, match="below"):
        adaptive(quiet).apply(np.zeros(DIMENSION), below=3, clients=2)


@pytest.mark.parametrize("state", [{}, None, {"layout": "x"}, "saved"])
def test_what_is_no_state_is_refused(tmp_path, state):
    with rustle.connect(f"inproc://{misuse.planned(tmp_path / 'run', dimension=3)}") as session:
        server = rustle.federated.Server(session, np.zeros(3), clients_per_round=2)
        for part in (server, server.optimizer):
            with pytest.raises(errors.InvalidArgument, match="state is .*; allowed: what state_dict.. returned; .*missing"):
                part.load_state_dict(state)
