"""Loaders of the caller's own: whether their order keeps a plan's participation, and the rounds that they yield."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Iterator

from torch.utils.data import BatchSampler as PlainBatchSampler
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from .. import _arguments, errors
from .._native import Plan
from .._round_guard import RoundGuard
from .._session import Session


def check_order(loader: DataLoader, plan: Plan) -> None:
    """Refuses a loader of the caller's own that breaks the plan's participation, as far as its classes tell."""
    _arguments.instance("loader", loader, DataLoader, "a torch.utils.data.DataLoader")
    kinds = type(loader.batch_sampler), type(loader.sampler)
    sampler: Any = loader.sampler
    shuffles = kinds == (PlainBatchSampler, RandomSampler)
    if shuffles and (sampler.replacement or sampler.num_samples > len(sampler.data_source)):
        _refuse("the loader may draw a record twice in an epoch")
    if not shuffles and kinds != (PlainBatchSampler, SequentialSampler):
        names = " over ".join(kind.__name__ for kind in kinds)
        _refuse(
            f"the loader's order is that of {names}; allowed: SequentialSampler, which repeats its order"
        )
    if not len(loader):
        _refuse("the loader has no batches; allowed: 1 or more")
    often = math.ceil(plan.iterations / len(loader))
    if often > plan.max_participations:
        _refuse(
            f"{plan.iterations} steps are {often} epochs of {len(loader)} batches; allowed by the plan: "
            f"{plan.max_participations} (max_participations)"
        )
    if often == 1:
        return
    if shuffles and plan.min_sep > 1:
        _refuse(f"the loader shuffles anew every epoch, so min_sep {plan.min_sep} does not hold")
    if len(loader) < plan.min_sep:
        _refuse(f"the loader has {len(loader)} batches an epoch; allowed: {plan.min_sep} (min_sep) or more")


def _refuse(text: str) -> None:
    raise errors.make("batches", f"{text}. Or pass batches=")


class Passes(RoundGuard):
    """The rounds of a loader that passes through its data again and again, an epoch each time that it is iterated.

    An epoch that was left early continues where it stopped if the order is fixed, and is refused if it is shuffled:
    begun anew, records would return sooner, or more often, than the plan allows.
    """

    #: A rank that draws by itself may draw the records of another one.
    rank = ranks = 0

    def __init__(self, loader: DataLoader, session: Session):
        super().__init__(session)
        check_order(loader, session.plan)
        self.sampler: Any = loader.batch_sampler
        self.shuffles = isinstance(loader.sampler, RandomSampler)
        named = f"{type(loader.sampler).__name__} {len(loader.dataset)} {loader.batch_size} {loader.drop_last}"
        self.digest = hashlib.sha256(b"rustle order v1" + named.encode()).digest()
        # What a pass was when the order was checked.
        self._batches, self._size = len(self.sampler), self.sampler.batch_size
        session.watch(self)

    def __len__(self) -> int:
        return len(self.sampler)

    def drawn(self) -> Iterator[tuple[int, list[int]]]:
        if (len(self), self.sampler.batch_size) != (self._batches, self._size):
            text = (
                f"the loader has {len(self)} batches of {self.sampler.batch_size} an epoch now and had {self._batches} of "
                f"{self._size}; allowed: the same in each, as records return sooner otherwise. Or pass batches="
            )
            raise errors.make("batches", text)
        first = self.session.next_step
        begun = first % len(self)
        if begun and self.shuffles:
            text = (
                f"the shuffled epoch broke off after {begun} of {len(self)} batches, and does not repeat the others; "
                "pass batches=, whose rounds continue anywhere"
            )
            raise errors.make("step", text)
        for at, ids in enumerate(self.sampler):
            if at >= begun and first + at - begun < self.session.iterations:
                yield first + at - begun, ids
