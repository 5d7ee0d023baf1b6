"""The server's step of FedAvg with DP-FTRL: McMahan, Xu, Zhang (2024), Algorithm 1."""

from __future__ import annotations

from typing import Any, Iterable, Literal, Protocol

import numpy as np

from .. import _arguments, errors
from .._kappa import IN_FLOAT64, KappaCheck
from .._session import Session, check_session
from ._clients import clip
from ._vectors import Arrays, Vectors


def check_state(state: Any, names: tuple[str, ...]) -> None:
    """Refuses what is no state that ``state_dict`` returned."""
    missing = list(names) if not isinstance(state, dict) else [name for name in names if name not in state]
    if missing:
        raise _arguments.refused("state", state, f"what state_dict() returned; {', '.join(missing)} missing")


class Optimizer(Protocol):
    """What moves the model along a noisy mean update. All that it keeps is in its state."""

    def step(self, parameters: np.ndarray, update: np.ndarray) -> np.ndarray:
        """The parameters after ``update``, both float64 of one axis; the given ones stay."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Sgd:
    """v ← βv + Δ̃, y ← y + η·v.

    With noise as differences of noisy prefix sums this is the momentum of Xu et al. (2023), Algorithm 1, on prefix sums
    themselves: Σβ^{t−k}S_k, counted from the first model.
    """

    def __init__(self, learning_rate: float = 1.0, momentum: float = 0.9):
        learning_rate, momentum = _arguments.above_zero("learning_rate", learning_rate), _arguments.number("momentum", momentum)
        if not 0 <= momentum < 1:
            raise _arguments.refused("momentum", momentum, "from 0, below 1")
        self.learning_rate, self.momentum = learning_rate, momentum
        self._velocity: np.ndarray | None = None

    def step(self, parameters: np.ndarray, update: np.ndarray) -> np.ndarray:
        before = np.zeros_like(update) if self._velocity is None else self._velocity
        self._velocity = self.momentum * before + update
        return parameters + self.learning_rate * self._velocity

    def state_dict(self) -> dict[str, Any]:
        return {"velocity": None if self._velocity is None else self._velocity.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_state(state, ("velocity",))
        velocity = state["velocity"]
        self._velocity = None if velocity is None else np.array(velocity, np.float64)


class Server:
    """The model, the server's optimizer, and a session's noise.

    ``parameters``: the first model, an array or arrays by name, in all as many coordinates as the session has.
    ``clients_per_round``: m, what sums are divided by, whatever number came. ``optimizer``: :class:`Sgd` with momentum
    0.9 where left away. Clients are to take part as the plan supposes: :class:`Participation`, :class:`rustle.Batches`.
    """

    _EXTRA: tuple[str, ...] = ()

    def __init__(
        self,
        session: Session,
        parameters: Arrays,
        *,
        clients_per_round: float,
        optimizer: Optimizer | None = None,
        commitment: Literal["declared", "exact"] = "declared",
    ):
        check_session(session)
        clients_per_round = _arguments.above_zero("clients_per_round", clients_per_round)
        if commitment not in ("declared", "exact"):
            raise errors.make("invalid_argument", f"commitment is {commitment!r}; allowed: declared, exact")
        self._vectors = Vectors(parameters, session, self._EXTRA)
        self._model = self._vectors.flat(parameters)
        self.session, self.commitment = session, commitment
        self.clients_per_round = clients_per_round
        self.optimizer: Optimizer = Sgd() if optimizer is None else optimizer
        self.plan = session.plan
        self._kappas = {"float32": KappaCheck(session), "float64": KappaCheck(session, roundings=IN_FLOAT64)}
        session.claim(self)

    @property
    def parameters(self) -> Any:
        """The model as it is now: a copy, of the types and shapes that it was given with."""
        return self._vectors.arrays(self._model)

    @property
    def round(self) -> int:
        """The round that comes next, from 0."""
        return self.session.next_step

    @property
    def rounds(self) -> int:
        return self.session.iterations

    @property
    def clip_norm(self) -> float:
        """ζ, which each client's update is clipped to; under a schedule of the session that of this round."""
        return self.session.clip_norm

    def step(self, updates: Iterable[Arrays]) -> None:
        """One round of these clients' updates y − y⁽⁰⁾, each clipped here. Taken one after the other.

        Where the session has :class:`rustle.Rounds`, more updates than the round has clients are refused before the round's row.
        Under a plan on a grid more of them than its κ covers, in float64, are refused before the round's row.
        """
        total, clients = np.zeros(self._vectors.dimension), 0
        for update in updates:
            total += clip(self._vectors.flat(update), self.clip_norm)
            clients += 1
        self._move(self._noised(total, "float64", clients))

    def apply(self, total: Arrays, *, divided_by: float = 1.0) -> None:
        """One round of a **sum** of updates that are clipped already.

        ``divided_by``: what the sum was divided by; the number of clients where ``total`` is their mean. Refused under a schedule
        of clip norms, of which clients know nothing here, and under a plan on a grid in fewer bits than float32.
        """
        self.session.refuse_clip_schedule("sums of updates that are clipped elsewhere")
        divided_by = _arguments.above_zero("divided_by", divided_by)
        self._move(self._noised(self._given(total) * divided_by, self._vectors.summed_in(total)))

    def _given(self, total: Arrays) -> np.ndarray:
        """A sum that was made elsewhere, as a vector."""
        if self.session.is_on_grid:
            self._vectors.check_bits(total)
        return self._vectors.flat(total)

    def _noised(self, total: np.ndarray, summed_in: str, clients: int | None = None) -> np.ndarray:
        """A sum in the plan's units with this round's noise. The round is over then, whatever becomes of the model.

        ``summed_in``: the type that updates were added in; ``clients``: how many there were, where that is known.
        """
        self._check_clients(clients)
        self._kappas[summed_in].check(clients)
        with np.errstate(over="ignore"):
            values = total.astype(np.float32)
        if not np.isfinite(values).all():
            raise errors.make("invalid_argument", "the sum of updates is not finite; leave this round out")
        how: Any = {"commitment": self.commitment, "summed_in": summed_in}
        return self.session.privatize_(values, self.round, **how).astype(np.float64)

    def _check_clients(self, clients: int | None) -> None:
        """Refuses more updates than the round's clients are, where rounds say how many."""
        rounds = self.session.rounds
        if clients is None or rounds is None:
            return
        most = rounds.records(self.round)
        if clients > most:
            text = (
                f"round {self.round} has {clients} updates; allowed: {most}, one of each client that was drawn for it. Leave out "
                "repeated ones, and those of other rounds"
            )
            raise errors.make("step", text)

    def _move(self, noisy: np.ndarray) -> None:
        self._model = self.optimizer.step(self._model, noisy / self.clients_per_round)

    def state_dict(self) -> dict[str, Any]:
        """All that the next round needs: arrays, numbers, and below 512 bytes of cursor. Changes nothing."""
        return {
            "layout": self._vectors.layout.digest,
            "model": self._model.copy(),
            "optimizer": self.optimizer.state_dict(),
            "cursor": self.session.cursor(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Continues at the saved position. Returns whether that took fresh noise, which costs privacy. A failure changes nothing.

        With ``commitment="exact"`` rounds after the state come again with the same noise, so that clients and their
        updates must come again too.
        """
        check_state(state, ("layout", "model", "optimizer", "cursor"))
        if state["layout"] != self._vectors.layout.digest:
            raise errors.make(
                "layout", "the state is of a model with other names or shapes; resume with the same one"
            )
        model = np.array(state["model"], np.float64)
        if model.shape != self._model.shape:
            raise errors.make(
                "layout", f"the state's model has shape {model.shape}; allowed: {self._model.shape}"
            )
        fresh = self.session.resume(state["cursor"], replay=self.commitment == "exact")
        self._model = model
        self.optimizer.load_state_dict(state["optimizer"])
        return fresh

    def __repr__(self) -> str:
        return f"{type(self).__name__}(round={self.round}, rounds={self.rounds}, plan={self.plan!r})"
