"""Opacus's optimizers with a session's noise. All private names of Opacus are used here, as Opacus 1.6 has them."""

from __future__ import annotations

from typing import Any

import torch
from opacus.optimizers import DPOptimizer, get_optimizer_class
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

from ..torch import Attachment, Noise


class NoisedOptimizer:
    """A mixin that stands before one of Opacus's optimizer classes: its noise comes from a session.

    Opacus chooses the class by clipping mode and distribution, and its trainers test for that class, so that a wrapper
    around an instance would not be recognised.
    """

    _noise: Noise
    _names: dict[int, str]

    def pre_step(self: Any, closure: Any = None) -> Any:
        noised = [p for p in self.params if id(p) in self._names]
        self._noise.check(self.original_optimizer, noised)
        return super().pre_step(closure)  # type: ignore[misc]

    @torch.no_grad()
    def add_noise(self: Any) -> None:
        for p in self.params:
            _check_processed_flag(p.summed_grad)
        sums = {self._names[id(p)]: p.summed_grad for p in self.params}
        noisy = {name: value.clone() for name, value in sums.items()}
        if not self._noise.add_all(noisy, 1.0):
            self._noise.add(self._noise.row(sums, 1.0), noisy, 1.0)
        for p in self.params:
            p.grad = noisy[self._names[id(p)]].view_as(p)
            _mark_as_processed(p.summed_grad)

    def discard(self: Any) -> None:
        """Discards the sums of the current logical batch."""
        self._step_skip_queue.clear()
        self._is_last_step_skipped = False
        self.zero_grad()


def noised_optimizer(noise: Noise, choice: dict[str, Any], arguments: dict[str, Any]) -> DPOptimizer:
    """Returns the optimizer that Opacus chooses for ``choice``, created with ``arguments``, with ``noise`` as its own."""
    base = get_optimizer_class(**choice)
    created = type(f"Noised{base.__name__}", (NoisedOptimizer, base), {})(**arguments)
    created._noise = noise
    created._names = {id(p): name for name, p in noise.parameters.items()}
    return created


def is_within_batch(optimizer: Any) -> bool:
    """Returns whether the optimizer has sums of a logical batch that is not complete."""
    return bool(optimizer._is_last_step_skipped or optimizer._step_skip_queue)


def is_step_deferred(optimizer: Any) -> bool:
    """Returns whether the step of the whole last batch was deferred.

    Parts of a batch may have been drawn ahead; the last one decides.
    """
    queue = optimizer._step_skip_queue
    return bool(queue[-1] if queue else optimizer._is_last_step_skipped)


class EngineAttachment(Attachment):
    """The attachment of an engine, which also discards the sums of a batch that is left out."""

    optimizer: Any = None

    def skip(self) -> None:
        super().skip()
        self.optimizer.discard()
