"""Batches for a DataLoader."""

from __future__ import annotations

from typing import Callable, Iterator

from torch.utils.data import Sampler

from .. import _arguments, errors
from .._batches import Batches


class BatchSampler(Sampler[list[int]]):
    """The rounds of :class:`rustle.Batches` for ``DataLoader(batch_sampler=…)``.

    Args:
        batches: The batches that the account assumes.
        start: The first round, or a function that returns it whenever a loader begins. With
            ``lambda: session.next_step`` each batch meets its own row, also after a resume or a loop that was left
            early. A round's batch is the same wherever the sampler begins.
        rank, ranks: The share of each batch that this sampler yields, for ranks that sum their gradients. All ranks
            need the same seed.
    """

    def __init__(
        self, batches: Batches, start: int | Callable[[], int] = 0, *, rank: int = 0, ranks: int = 1
    ):
        _arguments.instance("batches", batches, Batches, "rustle.Batches")
        rank, ranks = _arguments.whole("rank", rank), _arguments.whole("ranks", ranks, 1)
        if not 0 <= rank < ranks:
            raise errors.make("invalid_argument", f"rank is {rank}; allowed: 0 to {ranks - 1}")
        self.batches, self.start = batches, start
        self.rank, self.ranks = rank, ranks

    def __iter__(self) -> Iterator[list[int]]:
        for ids in self.batches.rounds(self._first()):
            yield ids[self.rank :: self.ranks].tolist()

    def __len__(self) -> int:
        return len(self.batches) - self._first()

    def _first(self) -> int:
        return self.start() if callable(self.start) else self.start
