"""Which clients may take part in a round, by the participation that a plan's privacy rests on."""

from __future__ import annotations

from typing import Any, Hashable, Iterable, TypeVar

from .. import _arguments, errors
from .._native import Plan

Client = TypeVar("Client", bound=Hashable)


class Participation:
    """Remembers each client's last round and how many it took part in: the timer of Xu et al. (2023), §2.2.

    A client's rounds i < j satisfy j − i ≥ ``min_sep``, and there are at most ``max_participations`` of them. It holds
    as far as clients' names do: a client that returns under another name is another client here.
    """

    def __init__(self, min_sep: int, max_participations: int):
        self.min_sep = _arguments.whole("min_sep", min_sep, 1)
        self.max_participations = _arguments.whole("max_participations", max_participations, 1)
        self._seen: dict[Hashable, tuple[int, int]] = {}

    @classmethod
    def of(cls, plan: Plan) -> "Participation":
        plan = _arguments.plan(plan)
        return cls(plan.min_sep, plan.max_participations)

    def may(self, client: Hashable, round: int) -> bool:
        last, times = self._seen.get(client, (round - self.min_sep, 0))
        return round - last >= self.min_sep and times < self.max_participations

    @property
    def clients(self) -> list[Hashable]:
        """Those that took part so far."""
        return list(self._seen)

    def eligible(self, clients: Iterable[Client], round: int) -> list[Client]:
        """Those that may take part in ``round``, in the order given."""
        return [client for client in clients if self.may(client, round)]

    def record(self, clients: Iterable[Hashable], round: int) -> None:
        """These take part in ``round``; all or, where one of them may not, none."""
        clients = list(clients)
        for client in clients:
            if not self.may(client, round):
                last, times = self._seen[client]
                text = (
                    f"client {client!r} took part {times} times, last in round {last}, and is to in {round}; allowed: "
                    f"{self.min_sep} rounds apart, {self.max_participations} times"
                )
                raise errors.make("batches", text)
        if len(set(clients)) < len(clients):
            raise errors.make("batches", f"a client is named twice in round {round}; allowed: once")
        for client in clients:
            self._seen[client] = (round, self._seen.get(client, (0, 0))[1] + 1)

    def state_dict(self) -> dict[str, Any]:
        """Goes into the checkpoint beside the server's. Lists clients: as secret as the batches."""
        return {"seen": [[client, *seen] for client, seen in self._seen.items()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._seen = {client: (int(last), int(times)) for client, last, times in state["seen"]}
