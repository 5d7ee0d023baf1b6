"""Flower: its own server loop, messages and client apps, with a server's noise."""

import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import prepared, rows

flwr = pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

import rustle
from rustle import errors, federated
from rustle.federated import AdaptiveServer, Server, Sgd
from rustle.federated.flower import Strategy, arrays

ROUNDS, NODES, PER_ROUND, FIRST_NODE = 8, 24, 6, 100
FIRST = {"w": np.zeros((4, 5), np.float32), "b": np.ones(5, np.float32)}
DIMENSION = 25


def client_app(change):
    """A client whose model moves by ``change(node, round)``, the same in all coordinates."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        given = message.content.array_records["arrays"]
        by = change(context.node_id, int(message.content["config"]["server-round"]))
        if by is None:
            raise RuntimeError("the client fails")
        moved = {name: Array((array.numpy() + by).astype(np.float32)) for name, array in given.items()}
        metrics = MetricRecord({"num-examples": context.node_id, "loss": 1.0})
        return Message(RecordDict({"arrays": ArrayRecord(moved), "metrics": metrics}), reply_to=message)

    return app


class InProcess(Grid):
    """Messages go straight to client apps, one node after the other."""

    def __init__(self, app, nodes=NODES):
        self.app, self.nodes, self.asked = app, list(range(FIRST_NODE, FIRST_NODE + nodes)), []

    def set_run(self, run):
        pass

    run = None

    def create_message(self, *_, **__):
        raise NotImplementedError

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def get_node_ids(self):
        return self.nodes

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        if messages:
            self.asked.append([message.metadata.dst_node_id for message in messages])
        return [self._answer(message) for message in messages]

    def _answer(self, message):
        node = message.metadata.dst_node_id
        context = Context(run_id=7, node_id=node, node_config={}, state=RecordDict(), run_config={})
        try:
            return self.app(message, context)
        except RuntimeError as error:
            return Message(Error(code=0, reason=str(error)), reply_to=message)


@pytest.fixture(autouse=True)
def server_process(monkeypatch):
    """What Flower sets in the process of a ServerApp: who sends."""
    for name, value in (("_run_id", 7), ("_node_id", 1), ("_task_id", 1)):
        monkeypatch.setattr(TaskIdentity, name, value)


@pytest.fixture
def plan():
    found = rustle.plan(
        float=True,
        iterations=ROUNDS,
        epsilon=8,
        delta=1e-5,
        min_sep=3,
        max_participations=3,
        mechanism="blt",
        size=2,
        clip_norm=0.5,
    )
    return found.replace(parameters=[("w", [4, 5]), ("b", [5])])


def server(session):
    return Server(session, FIRST, clients_per_round=PER_ROUND, optimizer=Sgd(1.0, 0.9))


def run(strategy, app, rounds=ROUNDS):
    grid = InProcess(app)
    strategy.start(grid=grid, initial_arrays=arrays(strategy.server), num_rounds=rounds)
    return grid


def test_flowers_loop_with_the_rows_of_the_plan(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'twin', plan)}") as session:
        noise = rows(session, ROUNDS)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        strategy = Strategy(server(session), min_train_nodes=PER_ROUND, fraction_train=0.1)
        change = lambda node, round: 0.0005 * node if node % 2 else 100.0
        grid = run(strategy, client_app(change))
        model, velocity = np.r_[np.zeros(20), np.ones(5)], 0
        for round, nodes in enumerate(grid.asked):
            assert len(nodes) == PER_ROUND
            total = sum(federated.clip(np.full(DIMENSION, change(node, round)), 0.5) for node in nodes)
            velocity = 0.9 * velocity + (total + noise[round]) / PER_ROUND
            model = model + velocity
        got = strategy.server.parameters
        assert np.allclose(np.r_[got["w"].reshape(-1), got["b"]], model, atol=1e-4)
        assert session.next_step == ROUNDS and "blt" in repr(strategy)
    for first in range(ROUNDS):
        near = grid.asked[first : first + 3]
        assert len(set(sum(near, []))) == sum(map(len, near))


def test_replies_that_cant_be_used_are_left_out(tmp_path, plan):
    # Four of the 24, fewer than are asked in a round: whichever are drawn, some reply is good.
    change = lambda node, round: {0: None, 1: np.nan}.get(node % 12, 0.01)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        strategy = Strategy(server(session), min_train_nodes=PER_ROUND, fraction_train=0.1)
        run(strategy, client_app(change), 2)
        assert session.next_step == 2 and np.isfinite(strategy.server.parameters["w"]).all()
        # No answer at all: the round is not used, and the clients that it chose have taken part.
        run(strategy, client_app(lambda node, round: None), 2)
        assert session.next_step == 2
        with pytest.raises(errors.InvalidArgument, match="may take part"):
            run(strategy, client_app(change), 1)


def test_a_reply_counts_once_and_only_from_who_was_asked(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        strategy = Strategy(server(session), min_train_nodes=PER_ROUND, fraction_train=0.1)
        grid = InProcess(client_app(lambda node, round: 0.01))
        replies = grid.send_and_receive(
            strategy.configure_train(1, arrays(strategy.server), ConfigRecord(), grid)
        )
        outsider = grid.send_and_receive(
            [
                Message(
                    RecordDict(
                        {"arrays": arrays(strategy.server), "config": ConfigRecord({"server-round": 1})}
                    ),
                    message_type="train",
                    dst_node_id=999,
                )
            ]
        )
        seen = []
        step = strategy.server.step
        strategy.server.step = lambda updates: (seen.extend(updates), step(updates))
        aggregated, metrics = strategy.aggregate_train(1, [*replies, *replies, *outsider])
        assert len(seen) == PER_ROUND and metrics is None and list(aggregated) == ["w", "b"]


def test_going_on_after_a_checkpoint(tmp_path, plan):
    app = client_app(lambda node, round: 0.01)
    folder = prepared(tmp_path / "run", plan)
    with rustle.connect(f"inproc://{folder}") as session:
        strategy = Strategy(server(session), min_train_nodes=PER_ROUND, fraction_train=0.1)
        run(strategy, app, 3)
        saved = strategy.state_dict()
    with rustle.connect(f"inproc://{folder}") as session:
        strategy = Strategy(server(session), min_train_nodes=PER_ROUND, fraction_train=0.1)
        assert strategy.load_state_dict(saved) is False
        assert (
            len(strategy.participation.eligible(range(FIRST_NODE, FIRST_NODE + NODES), 3))
            == NODES - 2 * PER_ROUND
        )
        run(strategy, app, ROUNDS - 3)
        assert session.next_step == ROUNDS
        with pytest.raises(errors.StepError):
            run(strategy, app, 1)


def test_other_arrays_than_the_servers_are_refused(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        strategy = Strategy(server(session), min_train_nodes=PER_ROUND)
        other = ArrayRecord({name: Array(value + 1) for name, value in FIRST.items()})
        with pytest.raises(errors.LayoutMismatch, match="initial_arrays"):
            strategy.start(grid=InProcess(client_app(lambda *_: 0.0)), initial_arrays=other, num_rounds=1)
        assert session.next_step == 0


def test_adaptive_clipping_under_flower(tmp_path):
    found = rustle.plan(
        float=True,
        iterations=ROUNDS, epsilon=8, delta=1e-5, min_sep=3, max_participations=3, mechanism="tree"
    )
    plan = found.with_restarts([4], True).replace(dimension=DIMENSION + 1)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        adaptive = AdaptiveServer(session, FIRST, clients_per_round=PER_ROUND, clip_norm=0.1, bit_noise=50.0)
        run(Strategy(adaptive, min_train_nodes=PER_ROUND, fraction_train=0.1), client_app(lambda *_: 0.2))
        assert adaptive.clip_norm != 0.1 and adaptive.round == ROUNDS


SIMULATES = """
import sys, numpy as np, rustle
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from rustle.federated import Server, Sgd
from rustle.federated.flower import Strategy, arrays
folder = sys.argv[1]
client, app = ClientApp(), ServerApp()

@client.train()
def train(message, context):
    given = message.content.array_records["arrays"]
    moved = {name: Array((array.numpy() + 0.01).astype(np.float32)) for name, array in given.items()}
    metrics = MetricRecord({"num-examples": 3})
    return Message(RecordDict({"arrays": ArrayRecord(moved), "metrics": metrics}), reply_to=message)

@app.main()
def main(grid, context):
    with rustle.connect("inproc://" + folder) as session:
        first = {"w": np.zeros((4, 5), np.float32), "b": np.ones(5, np.float32)}
        server = Server(session, first, clients_per_round=3, optimizer=Sgd(1.0, 0.0))
        strategy = Strategy(server, min_train_nodes=3, min_available_nodes=9, fraction_train=0.1)
        strategy.start(grid=grid, initial_arrays=arrays(server), num_rounds=4)
        np.savez(folder + "/model.npz", **server.parameters)

config = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2, "include_dashboard": False}}
run_simulation(app, client, num_supernodes=9, backend_config=config)
"""


def test_flowers_simulation_runs_it(tmp_path, plan):
    pytest.importorskip("ray")
    with rustle.connect(f"inproc://{prepared(tmp_path / 'twin', plan)}") as session:
        noise = rows(session, ROUNDS)[:4]
    folder = prepared(tmp_path / "run", plan)
    quiet = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", SIMULATES, folder], capture_output=True, text=True, env=quiet
    )
    assert done.returncode == 0, done.stderr
    model = np.load(folder / "model.npz")
    expected = np.r_[np.zeros(20), np.ones(5)] + 4 * 0.01 + noise.sum(0) / 3
    assert np.allclose(np.r_[model["w"].reshape(-1), model["b"]], expected, atol=1e-4)
