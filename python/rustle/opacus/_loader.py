"""Data loaders whose batches are those that the account assumes."""

from __future__ import annotations

from typing import Any, Iterator

from opacus.data_loader import dtype_safe, shape_safe, wrap_collate_with_empty
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import default_collate

from .. import errors
from ..torch import BatchSampler
from ._optimizer import is_step_deferred, is_within_batch


class Rounds(BatchSampler):
    """The rounds of the engine's batches, each with one optimizer step."""

    optimizer: Any = None

    def __iter__(self) -> Iterator[list[int]]:
        # The batch would restart at its first record: with the sums so far, records would count twice.
        if self.optimizer is not None and is_within_batch(self.optimizer):
            text = "the loader restarts within a logical batch; call engine.attachment.skip() first, to leave that one out"
            raise errors.make("step", text)
        for batch in super().__iter__():
            yield batch
            self._check_stepped()

    def _check_stepped(self) -> None:
        """Refuses a batch after one whose step was deferred: two batches would share one row."""
        if self.optimizer is not None and is_step_deferred(self.optimizer):
            text = (
                "signal_skip_step(True) deferred the step of the whole last batch; allowed: one step for each batch of "
                "batches=, which may be taken in parts (BatchMemoryManager), or engine.attachment.skip()"
            )
            raise errors.make("step", text)


def with_batches(loader: DataLoader, batches: BatchSampler) -> DataLoader:
    """Returns a loader of the same data in these batches, of which some may be empty."""
    collate = wrap_collate_with_empty(
        collate_fn=loader.collate_fn or default_collate,
        sample_empty_shapes=[(0, *shape_safe(x)) for x in loader.dataset[0]],
        dtypes=[dtype_safe(x) for x in loader.dataset[0]],
    )
    return DataLoader(
        loader.dataset,
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
    )
