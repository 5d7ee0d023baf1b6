"""Flower: clients keep their participation over simulations, in which node ids are new."""

import numpy as np
import pytest
from conftest import prepared

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict
from test_flower import PER_ROUND, ROUNDS, InProcess, client_app, plan, server, server_process

import rustle
from rustle import errors
from rustle.federated.flower import Strategy, answer_identity, arrays, ask_identity

CLIENTS = 24


class Simulation(InProcess):
    """Each run gives the same clients other node ids."""

    def __init__(self, app, seed, silent=()):
        super().__init__(app, CLIENTS)
        ids = np.random.default_rng(seed).choice(2**40, CLIENTS, replace=False)
        self.clients = {int(node): partition for partition, node in enumerate(ids)}
        self.nodes, self.silent, self.questions = list(self.clients), silent, 0

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        if messages and messages[0].metadata.message_type.startswith("query"):
            self.questions += len(messages)
            return [self._answer(m) for m in messages if self.clients[m.metadata.dst_node_id] not in self.silent]
        if messages:
            self.asked.append([self.clients[message.metadata.dst_node_id] for message in messages])
        return [self._answer(message) for message in messages]

    def _answer(self, message):
        node = message.metadata.dst_node_id
        config = {"partition-id": self.clients[node]}
        context = Context(run_id=7, node_id=node, node_config=config, state=RecordDict(), run_config={})
        return self.app(message, context)


def app():
    made = client_app(lambda node, round: 0.01)
    answer_identity(made)
    return made


def strategy(session, **arguments):
    return Strategy(server(session), min_train_nodes=PER_ROUND, fraction_train=0.1, **arguments)


def run(made, grid, rounds):
    made.start(grid=grid, initial_arrays=arrays(made.server), num_rounds=rounds)
    return grid.asked


def test_participation_goes_on_in_another_simulation(tmp_path, plan):
    folder = prepared(tmp_path / "run", plan)
    asked, state = [], None
    for seed, rounds in enumerate((3, 2, ROUNDS - 5)):
        with rustle.connect(f"inproc://{folder}") as session:
            made = strategy(session, identity=ask_identity)
            if state is not None:
                assert made.load_state_dict(state) is False
            grid = Simulation(app(), seed)
            asked += run(made, grid, rounds)
            # Each node is asked once.
            assert grid.questions == CLIENTS
            state = made.state_dict()
    assert len(asked) == ROUNDS
    for first in range(ROUNDS):
        near = asked[first : first + plan.min_sep]
        assert len(set(sum(near, []))) == sum(map(len, near))
    counts = np.bincount(sum(asked, []), minlength=CLIENTS)
    assert counts.max() <= plan.max_participations


def test_a_state_of_clients_that_nobody_knows_is_refused(tmp_path, plan):
    folder = prepared(tmp_path / "run", plan)
    with rustle.connect(f"inproc://{folder}") as session:
        made = strategy(session)
        run(made, Simulation(app(), 0), 3)
        state = made.state_dict()
    with rustle.connect(f"inproc://{folder}") as session:
        made = strategy(session)
        made.load_state_dict(state)
        with pytest.raises(errors.InvalidArgument, match="identity"):
            run(made, Simulation(app(), 1), 1)
        assert session.next_step == 3


def test_clients_that_tell_no_name_are_not_asked(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        silent = range(CLIENTS - 2)
        with pytest.raises(errors.InvalidArgument, match="may take part"):
            run(strategy(session, identity=ask_identity), Simulation(app(), 0, silent), 1)


def test_two_nodes_of_one_name_are_one_client(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        same = lambda grid, nodes: {node: node % 2 for node in nodes}
        with pytest.raises(errors.InvalidArgument, match="2 of 24 nodes"):
            run(strategy(session, identity=same), Simulation(app(), 0), 1)
