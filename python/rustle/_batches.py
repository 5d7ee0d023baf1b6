"""Batches as accounts assume them, from a secret seed."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
import tempfile
from typing import Any, Iterator, Sequence

import numpy as np

from . import _arguments, _native, errors
from ._owners import Owners


class Batches:
    """The records of each of ``iterations`` rounds. As secret as the seed.

    Args:
        scheme: A scheme from :mod:`rustle.schemes`, such as ``schemes.poisson(0.01)``.
        population: The number of records, the number that each user owns, or the :class:`rustle.Owners` of each.
        iterations: The number of rounds.
        seed: 32 secret bytes of this run alone; never the job's key.

    ``digest`` is equal where scheme, population, iterations and seed are.

    Example::

        batches = rustle.Batches(rustle.schemes.balls_in_bins(50), population=1797, iterations=500, seed=os.urandom(32))
        first = batches[0]    # int64 numbers of the records in round 0, ascending
    """

    def __init__(
        self, scheme: dict[str, Any], population: int | Sequence[int] | Owners, iterations: int, seed: bytes
    ):
        if not isinstance(scheme, dict) or "kind" not in scheme:
            raise _arguments.refused("scheme", scheme, "one of rustle.schemes, such as rustle.schemes.poisson(0.01)")
        self.scheme = dict(scheme)
        self.population = _population(population)
        iterations = _arguments.whole("iterations", iterations)
        seed = _arguments.octets("seed", seed, "32 secret bytes, as os.urandom(32) or Batches.seed_file gives them", "batches")
        owned = isinstance(self.population, Owners)
        drawn = self.population._native if isinstance(self.population, Owners) else self.population
        try:
            self._native = _native.Batches(json.dumps(scheme, allow_nan=False), drawn, iterations, seed)
        except (TypeError, ValueError) as error:
            # The text of a scheme that can't be read names no argument.
            if isinstance(error, errors.InvalidArgument) and error.kind != "invalid_argument":
                raise
            why = re.sub(r" at line \d+ column \d+", "", str(error))
            text = f"scheme is {_arguments.shown(scheme)} ({why}); allowed: one of rustle.schemes"
            raise errors.make("batches", text) from error
        named = self._native.digest if owned else drawn
        said = json.dumps([self.scheme, named, iterations], sort_keys=True).encode()
        self.digest = hashlib.sha256(b"rustle batches v1" + seed + said).hexdigest()

    @staticmethod
    def seed_file(path: str | os.PathLike[str]) -> bytes:
        """Returns the seed in a file, drawn from the operating system and written for its owner alone where it is missing.

        A run that resumes needs the seed that it began with.

        Raises:
            rustle.errors.InvalidArgument: The file has other than 32 bytes.
        """
        path = os.path.abspath(_arguments.path("path", path))
        if os.path.isdir(path):
            raise _arguments.refused("path", path, "a file, which is made where it is missing, and no folder", "batches")
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            # Under another name first, so that a seed never appears cut short.
            descriptor, draft = tempfile.mkstemp(prefix=".seed-", dir=os.path.dirname(path))
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(32))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError:
                pass  # Another process was faster: its seed is the run's.
            finally:
                os.unlink(draft)
        with open(path, "rb") as file:
            seed = file.read()
        if len(seed) != 32:
            raise errors.make("batches", f"{path} has {len(seed)} bytes; allowed: 32, the seed of one run's batches")
        return seed

    def __len__(self) -> int:
        return self._native.iterations

    def __getitem__(self, round: int) -> np.ndarray:
        """Returns the records of a round, ascending, int64. Negative numbers count from the end."""
        rounds = len(self)
        try:
            round = operator.index(round)
        except TypeError:
            raise _arguments.refused("round", round, f"0 to {rounds - 1}", "batches") from None
        if not -rounds <= round < rounds:
            raise IndexError(f"round is {round}; allowed: 0 to {rounds - 1}")
        return self._native.batch(round % rounds)[1]

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.rounds(0)

    def rounds(self, start: int = 0, end: int | None = None) -> Iterator[np.ndarray]:
        """Yields the records of the rounds from ``start`` to ``end``; a round is the same wherever this begins."""
        for _, ids, _, _ in self._native.rounds(start, len(self) if end is None else end):
            yield ids

    def owners(self, round: int) -> np.ndarray | None:
        """Returns the user that owns each record of the round, or None where the population is no list of users' numbers."""
        return self._native.batch(round)[2]

    def padding(self, round: int) -> int | None:
        """Returns the number of empty records that fill the round up to the cap, or None without a cap."""
        return self._native.batch(round)[3]

    def owner_statistics(self) -> dict[str, Any] | None:
        """Returns what a bound on owners keeps: records, by how many owners they have, and what was drawn; else None.

        ``drawn`` is the largest participation of any owner; it forms every batch of the run to count them.
        """
        found = self._native.owner_statistics()
        return None if found is None else json.loads(found)

    def check_length(self, records: int) -> None:
        """Refuses a data set of another length than the population, and batches whose unit is a user.

        Adapters that clip each record's gradient by itself call it: several records of one user in a batch would move their
        sum by several clip norms.

        Raises:
            rustle.errors.InvalidArgument: The data set has other records, or batches are of users.
        """
        if self.event["unit"] == "user":
            text = "a user may have several records in a batch, each clipped by itself; allowed: rustle.user_level.Training"
            raise errors.make("batches", text)
        if isinstance(self.population, Owners):
            least = self.population._native.end
            if records < least:
                text = f"the dataset has {records} records; allowed: {least} or more, as batches name number {least - 1}"
                raise errors.make("batches", text)
            return
        drawn = self.population if isinstance(self.population, int) else sum(self.population)
        if records != drawn:
            text = f"the dataset has {records} records; allowed: {drawn}, the population of batches"
            raise errors.make("batches", text)

    @property
    def event(self) -> dict[str, Any]:
        """The event for an accountant: the distribution of one unit's participations."""
        return json.loads(self._native.event())

    def __copy__(self) -> "Batches":
        return self

    def __deepcopy__(self, memo: Any) -> "Batches":
        # Nothing of it changes.
        return self

    def __reduce__(self) -> Any:
        text = "batches hold the secret seed and can't be pickled; allowed: the same batches made anew, from the seed in its file"
        raise errors.make("invalid_argument", text)

    def __repr__(self) -> str:
        return f"Batches({self.scheme['kind']}, iterations={len(self)})"


def _population(population: Any) -> int | list[int] | Owners:
    """Returns the number of records, the number of each user, or the owners."""
    if isinstance(population, Owners):
        return population
    if isinstance(population, (list, tuple)) or np.ndim(population) == 1:
        return [_arguments.whole(f"population[{at}]", size, kind="batches") for at, size in enumerate(population)]
    try:
        return _arguments.whole("population", population, kind="batches")
    except errors.InvalidArgument:
        allowed = "the number of records, a list of numbers of each user's, or rustle.Owners"
        raise _arguments.refused("population", population, allowed, "batches") from None
