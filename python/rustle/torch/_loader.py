"""Data loaders whose batches a session checks at each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Callable, Iterator

import torch
from torch.utils.data import Sampler
from torch.utils.data.dataloader import default_collate

from .. import _arguments, errors
from .._round_guard import RoundGuard
from .._rounds import Rounds
from .._session import Session
from ._order import Passes


class DrawnRounds(Sampler[list[int]]):
    """The batch sampler of a checked loader, which notes the rounds that were drawn and not handed out yet."""

    def __init__(self, guard: RoundGuard, dataset: Any):
        self.guard = guard
        self._dataset, self._records = dataset, len(dataset)
        self.pending: deque[tuple[int, int, int]] = deque()
        self.begun_by_loader = False
        #: Whether the loader itself hands the batches out, which something else that iterates the sampler does not.
        self.by_loader = False
        self.before_start: Callable[[], None] | None = None

    def __iter__(self) -> Iterator[list[int]]:
        self._check_records()
        self.by_loader = self.begun_by_loader
        if self.before_start is not None:
            self.before_start()
        self.pending.clear()
        return self._draw()

    def _draw(self) -> Iterator[list[int]]:
        for round, ids in self.guard.drawn():
            self._check_records()
            here = [int(record) for record in self.guard.share(ids)]
            self.pending.append((round, len(ids), len(here)))
            yield here

    def __len__(self) -> int:
        return len(self.guard)  # type: ignore[arg-type]

    def hand_out(self) -> None:
        """States that the next batch that was drawn is handed to the training loop now."""
        self._check_records()
        self.guard.deliver(*self.pending.popleft())

    def _check_records(self) -> None:
        """Refuses a data set that records came to or left: others have their numbers then, and return sooner than planned."""
        records = len(self._dataset)
        if records != self._records:
            text = (
                f"the dataset has {records} records now and had {self._records}; allowed: one length for the whole run, as batches "
                "number its records. Give records that are not to count a weight of zero"
            )
            raise errors.make("batches", text)


class DataLoader(torch.utils.data.DataLoader):
    """A PyTorch data loader with the batches of :class:`rustle.Rounds`, each handed out for the step of its round.

    It begins at the session's next step whenever it is iterated. Empty batches, which sampling may draw, are tensors of
    no records.

    Args:
        dataset: As many records as the batches have.
        rounds: The rounds of the run.
        arguments: Those of ``torch.utils.data.DataLoader`` that do not choose batches: ``num_workers``,
            ``collate_fn``, ``pin_memory`` and so on.

    Example::

        rounds = rustle.Rounds(batches, session, steps_per_epoch=10)
        for epoch in range(4):
            for x, y in rustle.torch.DataLoader(data, rounds):
                ...
    """

    #: Which ``Accelerator.prepare`` asks loaders for: it would make another one of this one's parts, whose batches nothing
    #: hands out. Batches stay where the data set has them.
    _is_accelerate_prepared = True

    def __init__(self, dataset: Any, rounds: RoundGuard, **arguments: Any):
        _arguments.instance("rounds", rounds, RoundGuard, "rustle.Rounds(batches, session)")
        for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if name in arguments:
                raise errors.make("batches", f"{name} is given; allowed: none beside rounds, which are batches")
        if not arguments.get("in_order", True):
            raise errors.make("batches", "in_order is False; allowed: True, as each batch is for its own step")
        records = length_of(dataset)
        if isinstance(rounds, Rounds):
            rounds.batches.check_length(records)
        collate = arguments.pop("collate_fn", None) or default_collate
        super().__init__(
            dataset, batch_sampler=DrawnRounds(rounds, dataset), collate_fn=_Collate(dataset, collate), **arguments
        )

    def __iter__(self) -> Iterator[Any]:
        sampler: Any = self.batch_sampler
        sampler.begun_by_loader = True
        try:
            # Which begins the sampler, with several processes twice.
            found = super().__iter__()
        finally:
            sampler.begun_by_loader = False
        for batch in found:
            sampler.hand_out()
            yield batch


class _Collate:
    """A collate function that also makes batches of no records."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]):
        self.dataset, self.collate = dataset, collate

    def __call__(self, records: list[Any]) -> Any:
        return self.collate(records) if records else _emptied(self.collate([self.dataset[0]]))


def _emptied(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch[:0]
    if isinstance(batch, Mapping):
        return {name: _emptied(value) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        parts = [_emptied(value) for value in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    raise errors.make(
        "batches", f"the collate function made {type(batch).__name__} of an empty batch; allowed: tensors"
    )


def length_of(dataset: Any) -> int:
    """Returns the number of a data set's records, which batches name by number.

    Raises:
        rustle.errors.InvalidArgument: It has none, as an ``IterableDataset``.
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        text = (
            f"dataset is a {type(dataset).__name__}, whose records have no numbers; allowed: a data set with a length, whose "
            "records are read by number (__len__ and __getitem__)"
        )
        raise errors.make("batches", text)
    return len(dataset)


def like(loader: torch.utils.data.DataLoader, rounds: RoundGuard, **changes: Any) -> DataLoader:
    """Returns a loader of the same data and settings with the batches of ``rounds``."""
    names = ("collate_fn", "num_workers", "pin_memory", "timeout", "worker_init_fn", "generator")
    names += ("multiprocessing_context", "prefetch_factor", "persistent_workers", "pin_memory_device")
    given = {name: getattr(loader, name) for name in names if getattr(loader, name, None) not in (None, "")}
    if not loader.num_workers:
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            given.pop(name, None)
    return DataLoader(loader.dataset, rounds, **{**given, **changes})


def in_order(loader: torch.utils.data.DataLoader, session: Session) -> DataLoader:
    """Returns a loader of the same batches that the session checks at each step, for batches without a seed.

    The loader must pass through its data in a fixed order, at least the plan's ``min_sep`` batches long, or shuffle
    where that keeps the plan's participation. It is iterated once an epoch. An epoch in fixed order that was left early
    continues where it stopped; one that was shuffled is refused then. For one rank: several share out the batches of
    :class:`rustle.Rounds`, and a step by this loader is refused.

    Raises:
        rustle.errors.InvalidArgument: The order may break the plan's participation.
    """
    return like(loader, Passes(loader, session))
