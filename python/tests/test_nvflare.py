"""NVFlare: an aggregator with a session's noise, by itself and in a real simulation (tests/test_public_trainings.py)."""

import numpy as np
import pytest
from conftest import prepared, rows

pytest.importorskip("nvflare")

from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

import rustle
from rustle import errors
from rustle.federated.nvflare import Aggregator

ROUNDS = 4
SHAPES = [("b", (5,)), ("w", (4, 5))]


@pytest.fixture
def plan():
    arguments = dict(iterations=ROUNDS, epsilon=8, delta=1e-5, min_sep=2, max_participations=2, mechanism="blt", size=2)
    return rustle.plan(float=True, **arguments, clip_norm=0.5, parameters=SHAPES)


@pytest.fixture
def aggregator(tmp_path, plan):
    made = Aggregator(str(prepared(tmp_path / "run", plan)), clients_per_round=2)
    yield made
    if made._server is not None:
        made._server.session.close()


def change(client, by, **shapes):
    params = {name: np.full(shapes.get(name, shape), by, np.float32) for name, shape in SHAPES}
    return FLModel(params_type=ParamsType.DIFF, params=params, meta={"client_name": client})


def flat(model):
    return np.concatenate([model.params[name].reshape(-1) for name, _ in SHAPES])


def test_the_mean_is_of_clipped_changes_and_has_the_rows(tmp_path, plan, aggregator):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'twin', plan)}") as session:
        noise = rows(session, 2)
    for round, clients in enumerate((("a", "b"), ("c", "d"))):
        aggregator.reset_stats()
        aggregator.accept_model(change(clients[0], 0.01))
        aggregator.accept_model(change(clients[1], 1000.0))
        found = aggregator.aggregate_model()
        assert found.params_type == ParamsType.DIFF
        # 25 equal coordinates of norm 0.5.
        assert np.allclose(flat(found), (0.01 + 0.1 + noise[round]) / 2, atol=1e-5)


def test_clients_take_part_as_the_plan_allows(aggregator):
    for clients, used in ((("a", "b", "a"), 2), (("a", "c"), 1), (("a", "b"), 2), (("c",), 1)):
        aggregator.reset_stats()
        for client in clients:
            aggregator.accept_model(change(client, 0.01))
        assert len(aggregator._updates) == used
        aggregator.aggregate_model()
    aggregator.reset_stats()
    aggregator.accept_model(change("a", 0.01))
    with pytest.raises(errors.RustleError, match="no client"):
        aggregator.aggregate_model()


def test_what_is_no_change_ends_the_round_before_its_noise(aggregator):
    whole = change("a", 0.01)
    whole.params_type = ParamsType.FULL
    for wrong, kind in ((whole, errors.InvalidArgument), (change("a", 0.01, w=(5, 4)), errors.LayoutMismatch)):
        aggregator.reset_stats()
        aggregator.accept_model(change("b", 0.01))
        aggregator.accept_model(wrong)
        with pytest.raises(kind):
            aggregator.aggregate_model()
    aggregator.reset_stats()
    aggregator.accept_model(change("a", np.nan))
    assert not aggregator._updates and aggregator._server.round == 0


def test_a_server_that_was_refused_leaves_the_folder_free(aggregator):
    aggregator.clients_per_round = 0
    for _ in range(2):
        with pytest.raises(errors.InvalidArgument, match="clients_per_round is 0"):
            aggregator._opened()
    aggregator.clients_per_round = 2
    assert aggregator._opened()[0].round == 0
