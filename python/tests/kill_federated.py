"""Small trainings of federated frameworks and of users with many records, as :mod:`kill_jobs` has them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Iterable

import numpy as np
from kill_jobs import STEPS, Checkpoint, Train

import rustle
from rustle import schemes

DIMENSIONS = {"users": 40, "flower": 25, "nvflare": 25}
#: Jobs that can't be resumed: NVFlare keeps its model itself, and the aggregator refuses to begin anew.
REFUSED = {"nvflare"}

NODES, PER_ROUND = 24, 4
LOG = "clients.jsonl"


def of_users() -> Train:
    from rustle import user_level

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        session = rustle.connect(f"inproc://{folder}?threads=1")
        checkpoint = Checkpoint(folder, session)
        batches = rustle.Batches(schemes.uls(2, schemes.fixed_order(4)), [3, 1, 4, 2] * 6, STEPS, bytes(32))
        training = user_level.Training(session, batches, commitment=commitment)
        model = checkpoint.begin_or_resume(np.zeros(session.dimension, np.float32), commitment)
        for round, ids in training:
            gradients = np.cos(model[None, :] + ids[:, None])
            model = model - np.float32(0.1) * training.noisy_mean(round, gradients)
            if checkpoint.due():
                checkpoint.pickle((model, session.cursor()))
        return [model]

    return train


def of_flower() -> Train:
    from flwr.app import Array, ArrayRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.supercore.task_identity import TaskIdentity
    from test_flower import InProcess

    from rustle.federated import Server, Sgd
    from rustle.federated.flower import Strategy, arrays

    # What Flower sets in the process of a ServerApp: who sends.
    for name, value in (("_run_id", 7), ("_node_id", 1), ("_task_id", 1)):
        setattr(TaskIdentity, name, value)
    app = ClientApp()

    @app.train()
    def moved(message: Any, context: Any) -> Any:
        given = message.content.array_records["arrays"]
        after = {name: Array(array.numpy() + 0.01 * np.cos(array.numpy() + context.node_id)) for name, array in given.items()}
        return Message(RecordDict({"arrays": ArrayRecord(after)}), reply_to=message)

    class Logged(InProcess):
        """Writes down which clients are asked, and in which round of which branch."""

        def __init__(self, folder: Path, session: rustle.Session):
            super().__init__(app, NODES)
            self.file, self.session = folder / LOG, session

        def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
            found = super().send_and_receive(messages, timeout=timeout)
            if found:
                asked = {"branch": self.session.branch, "round": self.session.next_step, "clients": self.asked[-1]}
                with open(self.file, "a") as file:
                    file.write(json.dumps(asked) + "\n")
            return found

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        session = rustle.connect(f"inproc://{folder}?threads=1")
        checkpoint = Checkpoint(folder, session)
        settings = dict(clients_per_round=PER_ROUND, optimizer=Sgd(1.0, 0.9), commitment=commitment)
        server = Server(session, np.zeros(session.dimension), **settings)
        strategy = Strategy(server, min_train_nodes=PER_ROUND, fraction_train=0.1)
        if checkpoint.goes_on():
            strategy.load_state_dict(checkpoint.unpickle())
            checkpoint.resumed()

        def after_round(number: int, _: Any) -> None:
            # Clients are chosen at random, and a round that is repeated has to choose the same ones.
            random.seed(f"{server.round} {commitment}")
            if checkpoint.due() and (number or not checkpoint.goes_on()):
                checkpoint.pickle(strategy.state_dict())

        left = server.rounds - server.round
        if left:
            grid = Logged(folder, session)
            strategy.start(grid=grid, initial_arrays=arrays(server), num_rounds=left, evaluate_fn=after_round)
        return [server.parameters]

    return train


def check_clients(folder: Path, plan: rustle.Plan) -> None:
    """Clients took part as the plan allows, in the rounds that the end stands on: of each round the last that was taken."""
    log = folder / LOG
    if not log.exists():
        return
    last: dict[int, list[int]] = {}
    for line in log.read_text().splitlines():
        asked = json.loads(line)
        last[asked["round"]] = asked["clients"]
    assert sorted(last) == list(range(STEPS)) and all(len(clients) == PER_ROUND for clients in last.values())
    for client in {client for clients in last.values() for client in clients}:
        rounds = sorted(round for round, clients in last.items() if client in clients)
        assert len(rounds) <= plan.max_participations, (client, rounds)
        assert all(after - before >= plan.min_sep for before, after in zip(rounds, rounds[1:])), (client, rounds)


def of_nvflare() -> Train:
    from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

    from rustle import errors
    from rustle.federated.nvflare import Aggregator

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        assert commitment == "declared"
        aggregator, model = Aggregator(str(folder), clients_per_round=PER_ROUND), np.zeros(DIMENSIONS["nvflare"])
        for round in range(STEPS):
            aggregator.reset_stats()
            for client in range(PER_ROUND):
                by = {"w": 0.01 * np.cos(model + client)}
                name = f"client {round % 4} {client}"
                aggregator.accept_model(FLModel(params_type=ParamsType.DIFF, params=by, meta={"client_name": name}))
            try:
                model = model + aggregator.aggregate_model().params["w"]
            except errors.NotResumed:
                (folder / "refused").touch()
                return []
        return [model]

    return train


JOBS = {"users": of_users, "flower": of_flower, "nvflare": of_nvflare}
