"""NVFlare: an aggregator whose mean is DP-FTRL FedAvg, for the recipes and workflows of FedAvg (tested against nvflare 2.9).

::

    recipe = FedAvgRecipe(
        name="digits", min_clients=8, num_rounds=20, model=Net(), train_script="client.py",
        params_transfer_type=TransferType.DIFF,
        aggregator=rustle.federated.nvflare.Aggregator(folder="/runs/digits", clients_per_round=8),
    )

Clients send their models' changes, as ``TransferType.DIFF`` has them do. Each one is clipped to the plan's clip norm and all
count the same, whatever number of steps or examples they name. Metrics that clients send are in no ε: they are left out. The package must
be installed where the server runs: no job brings it along.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from nvflare.apis.event_type import EventType
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.job_config import fed_job_config

from .. import _arguments, errors
from .._connect import connect
from .._session import Session
from ._participation import Participation
from ._server import Server, Sgd

__all__ = ["Aggregator"]

_LOG = logging.getLogger(__name__)

# NVFlare copies the sources of a job's components, and of all that they import, into the job, and loads those copies: without
# the package's native module. The packages that this list names are left out; it is of that module alone, others have theirs.
fed_job_config.FL_PACKAGES = [*fed_job_config.FL_PACKAGES, "rustle"]


class Aggregator(ModelAggregator):
    """The noisy mean of clients' changes, as the change of NVFlare's model.

    Made where the job is described, and opened in the server's process, in its first round. Clients take part as the plan allows by
    their NVFlare names: FedAvg asks the same ones in every round, so that ``min_sep`` is 1 and ``max_participations`` the
    number of rounds, unless ``min_clients`` is less than there are. A client that may not take part again yet is left out.

    Args:
        folder: The run's folder on the server's host, with ``plan.toml``, which names the model's parameters and their
            shapes. A job that is started anew needs a new folder: NVFlare's own resumption is refused (``NotResumed``).
        clients_per_round: What sums are divided by, whatever number of clients came.
        learning_rate, momentum: Of the server's optimizer, :class:`rustle.federated.Sgd`.
    """

    def __init__(self, folder: str, clients_per_round: float, learning_rate: float = 1.0, momentum: float = 0.0):
        super().__init__()
        # Under the arguments' own names: NVFlare makes a description of them, and another object of it on the server.
        self.folder = _arguments.path("folder", folder)
        self.clients_per_round = _arguments.above_zero("clients_per_round", clients_per_round)
        # Looked at here too: on the server a refusal would come with the first round.
        Sgd(learning_rate, momentum)
        self.learning_rate, self.momentum = learning_rate, momentum
        self._server: Server | None = None
        self._participation: Participation | None = None
        self.reset_stats()

    def reset_stats(self) -> None:
        """Begins a round."""
        self._updates: dict[str, dict[str, np.ndarray]] = {}
        self._refused: Exception | None = None

    def accept_model(self, model: FLModel) -> None:
        """Takes a client's change. One that is no change of the model ends the round, before its noise."""
        name = str((model.meta or {}).get("client_name"))
        if model.params_type != ParamsType.DIFF:
            text = f"client {name} sent {model.params_type}; allowed: params_transfer_type=TransferType.DIFF"
            self._refused = errors.make("invalid_argument", text)
            return
        server, participation = self._opened()
        whole = server.parameters
        found = {key: np.asarray(value, np.float64) for key, value in model.params.items()}
        if {key: value.shape for key, value in found.items()} != {key: value.shape for key, value in whole.items()}:
            text = f"client {name} sent parameters of other names or shapes than the plan's"
            self._refused = errors.make("layout", text)
        elif name in self._updates or not participation.may(name, server.round):
            _LOG.warning("client %s may not take part in round %d; it is left out", name, server.round)
        elif not all(np.isfinite(value).all() for value in found.values()):
            _LOG.warning("client %s sent numbers that are not finite; it is left out", name)
        else:
            self._updates[name] = found

    def aggregate_model(self) -> FLModel:
        """Returns the noisy mean of the round's changes, as a change."""
        if self._refused is not None:
            raise self._refused
        server, participation = self._opened()
        if not self._updates:
            raise errors.make("batches", f"no client's change could be used in round {server.round}")
        participation.record(self._updates, server.round)
        before = server.parameters
        server.step(self._updates.values())
        after = server.parameters
        self.reset_stats()
        return FLModel(params_type=ParamsType.DIFF, params={key: after[key] - before[key] for key in after})

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Closes the session when the job ends."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.END_RUN and self._server is not None:
            self._server.session.close()

    def _opened(self) -> tuple[Server, Participation]:
        if self._server is None:
            session = connect(f"inproc://{self.folder}")
            try:
                self._participation = Participation.of(session.plan)
                self._server = self._served(session)
            except BaseException:
                session.close()
                raise
        assert self._participation is not None
        return self._server, self._participation

    def _served(self, session: Session) -> Server:
        if not session.plan.parameters:
            raise errors.make("plan", f"{self.folder}/plan.toml names no parameters; allowed: names and shapes of the model's")
        first = {name: np.zeros(shape, np.float32) for name, shape in session.plan.parameters}
        optimizer = Sgd(self.learning_rate, self.momentum)
        return Server(session, first, clients_per_round=self.clients_per_round, optimizer=optimizer)
