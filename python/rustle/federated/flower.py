"""Flower: a strategy whose server step is DP-FTRL FedAvg, for the message API (tested with flwr 1.41).

::

    with rustle.connect("inproc://run") as session:
        server = rustle.federated.Server(session, initial, clients_per_round=100)
        result = rustle.federated.flower.Strategy(server, min_train_nodes=100).start(
            grid=grid, initial_arrays=rustle.federated.flower.arrays(server), num_rounds=session.iterations
        )

Clients send whole models, as to Flower's own FedAvg. Here each one's change is clipped to the server's clip norm and all
count the same, whatever number of examples they name; the server's optimizer moves the model by the noisy mean.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from .. import _arguments, errors
from ._adaptive import AdaptiveServer
from ._identities import Identity, Names, answer_identity, ask_identity, check_some_known
from ._participation import Participation
from ._server import Server

__all__ = ["Strategy", "answer_identity", "arrays", "ask_identity"]


_SERVER = "a Server or AdaptiveServer of rustle.federated"


def arrays(server: Server) -> ArrayRecord:
    """The server's model, as Flower has it."""
    _arguments.instance("server", server, Server, _SERVER)
    model = server.parameters
    named = model if isinstance(model, dict) else {"parameters": model}
    return ArrayRecord({name: Array(np.ascontiguousarray(value)) for name, value in named.items()})


class Strategy(FedAvg):
    """Flower's FedAvg with a :class:`Server` or :class:`AdaptiveServer` in the place of its mean.

    Clients are asked again as the plan's participation allows, which holds as far as they keep their names. Metrics that
    clients send are no part of any ε: those of training are left out, those of evaluation come where
    ``fraction_evaluate`` is set. ``FedAvg``'s other arguments are its own.

    ``identity``: a function of the grid and of node ids that returns a name for each node, the same in every run:
    :func:`ask_identity`, with :func:`answer_identity` in the client app. Without it node ids are the names, which are new
    in every simulation. A state that names other clients than all that are connected is refused.
    """

    def __init__(
        self,
        server: Server,
        *,
        fraction_evaluate: float = 0.0,
        identity: Identity | None = None,
        **arguments: Any,
    ):
        _arguments.instance("server", server, Server, _SERVER)
        fraction_evaluate = _arguments.number("fraction_evaluate", fraction_evaluate)
        if identity is not None:
            _arguments.function("identity", identity, "a function of the grid and of node ids, such as ask_identity, or None")
        super().__init__(fraction_evaluate=fraction_evaluate, **arguments)
        self.server = server
        self._names = Names(identity)
        self._was_loaded = False
        self.participation = Participation.of(server.plan)
        self._asked: set[int] = set()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Asks nodes that may take part in the session's next round, chosen at random; they count as having done so."""
        here = self._nodes(grid)
        named = self._names.of(grid, here)
        if self._was_loaded:
            check_some_known(named, self.participation.clients)
            self._was_loaded = False
        eligible = self.participation.eligible(named, self.server.round)
        wanted = max(int(len(here) * self.fraction_train), self.min_train_nodes)
        if len(eligible) < self.min_train_nodes:
            text = (
                f"{len(eligible)} of {len(here)} nodes may take part in round {self.server.round}; allowed: "
                f"{self.min_train_nodes} or more (min_train_nodes). The plan lets a node come back after "
                f"{self.server.plan.min_sep} rounds, {self.server.plan.max_participations} times in all"
            )
            raise errors.make("batches", text)
        chosen = random.sample(eligible, min(wanted, len(eligible)))
        self.participation.record(chosen, self.server.round)
        nodes = [named[client] for client in chosen]
        self._asked = set(nodes)
        log(INFO, "configure_train: %s nodes of %s that may take part", len(chosen), len(eligible))
        config["server-round"] = server_round
        record = RecordDict({self.arrayrecord_key: self._arrays(arrays), self.configrecord_key: config})
        return [Message(record, message_type=MessageType.TRAIN, dst_node_id=node) for node in nodes]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """One step of the server. A reply that can't be used is left out; without any the round is not taken."""
        before = self.server.parameters
        updates = []
        for reply in replies:
            update = self._update(reply, before)
            if update is not None:
                updates.append(update)
        if not updates:
            log(WARNING, "aggregate_train: no reply could be used; the round is not taken")
            return None, None
        self.server.step(updates)
        return arrays(self.server), None

    def _nodes(self, grid: Grid) -> list[int]:
        """Who is connected, once there are enough: waits for that, as FedAvg does."""
        enough = max(self.min_available_nodes, self.min_train_nodes)
        while len(here := list(grid.get_node_ids())) < enough:
            log(INFO, "configure_train: %d nodes are connected; waiting for %d", len(here), enough)
            time.sleep(1)
        return here

    def _arrays(self, given: ArrayRecord) -> ArrayRecord:
        """The server's model goes out; what Flower has must be the same, or a change would not be what is clipped."""
        mine = arrays(self.server)
        same = list(given) == list(mine) and all(
            np.array_equal(given[name].numpy(), mine[name].numpy()) for name in mine
        )
        if not same:
            text = "Flower's arrays are not the server's model; allowed: initial_arrays=flower.arrays(server)"
            raise errors.make("layout", text)
        return mine

    def _update(self, reply: Message, before: Any) -> Any:
        """A client's change of the model; None, with the reason logged, where there is none of use."""
        node = reply.metadata.src_node_id
        if node not in self._asked:
            log(WARNING, "aggregate_train: node %d was not asked, or answered already", node)
            return None
        if reply.has_error():
            log(INFO, "aggregate_train: node %d: %s", node, reply.error.reason)
            return None
        self._asked.discard(node)
        records = list(reply.content.array_records.values())
        after = {name: array.numpy() for name, array in records[0].items()} if len(records) == 1 else {}
        whole = before if isinstance(before, dict) else {"parameters": before}
        usable = set(after) == set(whole) and all(
            after[name].shape == value.shape and np.isfinite(after[name]).all()
            for name, value in whole.items()
        )
        if not usable:
            log(WARNING, "aggregate_train: node %d sent other arrays, or numbers that are not finite", node)
            return None
        change = {name: after[name].astype(np.float64) - value for name, value in whole.items()}
        return change if isinstance(before, dict) else change["parameters"]

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint, as Flower keeps none: the server's, and who took part. Changes nothing."""
        return {"server": self.server.state_dict(), "participation": self.participation.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Continues at the saved position. Returns whether that took fresh noise. ``start`` then takes ``arrays(server)`` and fewer rounds."""
        fresh = self.server.load_state_dict(state["server"])
        self.participation.load_state_dict(state["participation"])
        self._was_loaded = True
        return fresh

    def summary(self) -> None:
        """Logs the plan beside FedAvg's settings."""
        plan = self.server.plan
        clipping = "adaptive, from" if isinstance(self.server, AdaptiveServer) else "fixed,"
        log(INFO, "\t├──> Rustle: %s", self)
        log(INFO, "\t│\t├── Clipping: %s %s", clipping, self.server.clip_norm)
        log(INFO, "\t│\t└── Noise multiplier: %s", plan.noise_multiplier)
        super().summary()

    def __repr__(self) -> str:
        return f"Strategy({self.server!r})"
