"""Which owners each record has."""

from __future__ import annotations

import os
from typing import Hashable, Iterable

from . import _native


class Owners:
    """The owners of each record, for :class:`rustle.Batches` that bound how often every owner takes part.

    Who owns what counts as public: an account hides what an owner's records say, in all of them together.

    Args:
        records: The number of each record and its owners, which may have any names; a record has at least one.

    ``count``: the number of owners. ``len(owners)``: the number of records.

    Raises:
        rustle.errors.InvalidArgument: A record has no owner, or is there twice.

    Example::

        owners = rustle.Owners([(0, ["ann"]), (1, ["ann", "bob"]), (2, ["bob", "eve"])])
        scheme = rustle.schemes.contribution_bound(batch_size=64, min_sep=10, max_participations=4)
        batches = rustle.Batches(scheme, owners, iterations=500, seed=seed)
        batches.owner_statistics()    # what the bound left out
    """

    def __init__(self, records: Iterable[tuple[int, Iterable[Hashable]]]):
        numbers: dict[Hashable, int] = {}
        rows = [
            (int(record), [numbers.setdefault(name, len(numbers)) for name in names])
            for record, names in records
        ]
        self._native = _native.Owners(rows)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Owners:
        """Reads a file with a line for each record: ``record,owner,owner,…`` or ``{"record": 7, "owners": ["ann"]}``.

        Raises:
            rustle.errors.InvalidArgument: The file can't be read, or a line says something else.
        """
        owners = cls.__new__(cls)
        owners._native = _native.Owners.read(os.fspath(path))
        return owners

    def __len__(self) -> int:
        return self._native.records

    @property
    def count(self) -> int:
        return self._native.count

    def __repr__(self) -> str:
        return f"Owners({len(self)} records, {self.count} owners)"
