"""Batches as accounts suppose them, from a secret seed."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Iterator, Sequence

import numpy as np

from . import _native


class Batches:
    """Who takes part in each of ``iterations`` rounds. As secret as the seed.

    ``scheme``: a kind with its numbers, as ``{"kind": "poisson", "sampling_probability": 0.01}``; the functions of
    :mod:`rustle.schemes` make them. ``population``: how many records there are, or how many each user owns.
    ``seed``: 32 secret bytes, of this run alone; never the job's key. ``digest``: equal where batches are.
    """

    def __init__(self, scheme: dict[str, Any], population: int | Sequence[int], iterations: int, seed: bytes):
        owners = population if isinstance(population, int) else [int(size) for size in population]
        self.scheme = dict(scheme)
        self.population: int | list[int] = owners
        self._native = _native.Batches(json.dumps(scheme), owners, iterations, bytes(seed))
        said = json.dumps([self.scheme, owners, iterations], sort_keys=True).encode()
        self.digest = hashlib.sha256(b"rustle batches v1" + bytes(seed) + said).hexdigest()

    def __len__(self) -> int:
        return self._native.iterations

    def __getitem__(self, round: int) -> np.ndarray:
        """The records of a round, ascending, int64. The last rounds by negative numbers."""
        rounds = len(self)
        if not -rounds <= round < rounds:
            raise IndexError(f"round is {round}; allowed: 0 to {rounds - 1}")
        return self._native.batch(round % rounds)[1]

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.rounds(0)

    def rounds(self, start: int = 0, end: int | None = None) -> Iterator[np.ndarray]:
        """The records of rounds from ``start`` on: the same wherever it begins."""
        for _, ids, _, _ in self._native.rounds(start, len(self) if end is None else end):
            yield ids

    def owners(self, round: int) -> np.ndarray | None:
        """Whose record each of the round's is; None where records have no owners."""
        return self._native.batch(round)[2]

    def padding(self, round: int) -> int | None:
        """Empty records that are missing to the cap; None without a cap."""
        return self._native.batch(round)[3]

    @property
    def event(self) -> dict[str, Any]:
        """What an accountant has to be told: the law of one unit's participations."""
        return json.loads(self._native.event())

    def __repr__(self) -> str:
        return f"Batches({self.scheme['kind']}, iterations={len(self)})"
