"""Which owners each record has."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable

from . import _arguments, _native, errors


class Owners:
    """The owners of each record, for :class:`rustle.Batches` that bound how often every owner takes part.

    Who owns what counts as public: an account hides what an owner's records say, in all of them together.

    Args:
        records: The number of each record and its owners, which may have any names; a record has at least one.

    ``count``: the number of owners. ``len(owners)``: the number of records.

    Raises:
        rustle.errors.InvalidArgument: A record has no owner, has one name in place of a list, or is there twice.

    Example::

        owners = rustle.Owners([(0, ["ann"]), (1, ["ann", "bob"]), (2, ["bob", "eve"])])
        scheme = rustle.schemes.contribution_bound(batch_size=64, min_sep=10, max_participations=4)
        batches = rustle.Batches(scheme, owners, iterations=500, seed=seed)
        batches.owner_statistics()    # what the bound left out
    """

    def __init__(self, records: Iterable[tuple[int, Iterable[Hashable]]]):
        numbers: dict[Hashable, int] = {}
        rows = []
        if isinstance(records, (str, bytes)) or not isinstance(records, Iterable):
            raise _arguments.refused("records", records, "pairs of a record's number and a list of its owners", "batches")
        for at, pair in enumerate(records):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise _arguments.refused(f"records[{at}]", pair, "a pair of a record's number and a list of its owners", "batches")
            record, names = _arguments.whole(f"the number of records[{at}]", pair[0], kind="batches"), pair[1]
            if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
                text = f"the owners of record {record} are {names!r}; allowed: a list of names, such as [{names!r}]"
                raise errors.make("batches", text)
            rows.append((record, [_number_of(name, record, numbers) for name in names]))
        self._native = _native.Owners(rows)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Owners:
        """Reads a file with a line for each record: ``record,owner,owner,…`` or ``{"record": 7, "owners": ["ann"]}``.

        Raises:
            rustle.errors.InvalidArgument: The file can't be read, or a line says something else.
        """
        owners = cls.__new__(cls)
        file = _arguments.path("path", path)
        if not os.path.isfile(file):
            raise _arguments.refused("path", file, "a file that is there, with a line for each record", "batches")
        owners._native = _native.Owners.read(file)
        return owners

    def __len__(self) -> int:
        return self._native.records

    @property
    def count(self) -> int:
        return self._native.count

    def __repr__(self) -> str:
        return f"Owners({len(self)} records, {self.count} owners)"


def _number_of(name: Hashable, record: int, numbers: dict[Hashable, int]) -> int:
    """Returns an owner's number: a new one for a name that was not seen yet."""
    if not isinstance(name, Hashable):
        raise _arguments.refused(f"an owner of record {record}", name, "a name: a text, a number", "batches")
    return numbers.setdefault(name, len(numbers))
