"""Names of clients that outlive the ids that Flower gives to nodes."""

from __future__ import annotations

from typing import Any, Callable, Hashable, Iterable

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from .. import errors

_ACTION = "rustle_identity"
_RECORD = "rustle"

Identity = Callable[[Grid, list[int]], dict[int, Hashable]]


def answer_identity(app: ClientApp, name: Callable[[Context], Any] | None = None) -> None:
    """Lets a client app state its name when :func:`ask_identity` asks.

    ``name``: a text or whole number from the client's context, the same in every run; by default its ``partition-id``.
    """

    @app.query(_ACTION)
    def answer(message: Message, context: Context) -> Message:
        name_here = context.node_config["partition-id"] if name is None else name(context)
        record = ConfigRecord({"identity": name_here})
        return Message(RecordDict({_RECORD: record}), reply_to=message)


def ask_identity(grid: Grid, nodes: list[int]) -> dict[int, Hashable]:
    """Returns the names of nodes as their client apps state them; those that do not answer are left out.

    Nothing proves a name: a client that states another one is another client to the participation.
    """
    asked = [
        Message(
            RecordDict({_RECORD: ConfigRecord({})}), message_type=f"query.{_ACTION}", dst_node_id=node
        )
        for node in nodes
    ]
    found: dict[int, Hashable] = {}
    for reply in grid.send_and_receive(asked):
        if not reply.has_error() and _RECORD in reply.content.config_records:
            found[reply.metadata.src_node_id] = str(reply.content.config_records[_RECORD]["identity"])
    return found


class Names:
    """The names of nodes, asked for once each; a node's id where no ``identity`` is given."""

    def __init__(self, identity: Identity | None):
        self._identity = identity
        self._known: dict[int, Hashable] = {}

    def of(self, grid: Grid, nodes: list[int]) -> dict[Hashable, int]:
        """Returns one node for each name, of those that have one."""
        if self._identity is None:
            return {node: node for node in nodes}
        new = [node for node in nodes if node not in self._known]
        if new:
            self._known |= self._identity(grid, new)
        return {self._known[node]: node for node in nodes if node in self._known}


def check_some_known(names: Iterable[Hashable], seen: Iterable[Hashable]) -> None:
    """Refuses clients of which none is known to a state that was loaded: their names are new, not they themselves."""
    known = set(seen)
    if known and not known & set(names):
        text = (
            f"the state names {len(known)} clients that took part, and none of them is connected under its name; allowed: "
            "names that stay, Strategy(identity=…). Flower's node ids are new in every simulation"
        )
        raise errors.make("batches", text)
