"""Opacus's optimizers with a session's noise. All private names of Opacus are used here, as Opacus 1.6 has them."""

from __future__ import annotations

from typing import Any

import torch
from opacus.optimizers import DPOptimizer, get_optimizer_class
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

from .. import errors
from ..torch import Attachment, Noise
from ..torch._gradients import check_none_frozen
from ..torch._nesting import is_nested
from ..torch._owners import refuse_copy
from ..torch._sums import summed, without_autocast
from ..torch._tensors import check_float32
from ._steps import StepCheck


class NoisedOptimizer:
    """A mixin that stands before one of Opacus's optimizer classes: its noise comes from a session.

    Opacus chooses the class by clipping mode and distribution, and its trainers test for that class, so that a wrapper
    around an instance would not be recognised.
    """

    _noise: Noise
    _names: dict[int, str]
    _attachment: "EngineAttachment"
    _steps: StepCheck

    def pre_step(self: Any, closure: Any = None) -> Any:
        self._attachment.check_not_paused()
        self._attachment.check_model()
        check_none_frozen(self._noise.parameters)
        noised = [p for p in self.params if id(p) in self._names]
        if len(noised) < len(self.params):
            other = next(p for p in self.params if id(p) not in self._names)
            text = (
                f"parameter {self._noise.name_of(other)} requires a gradient and has no noise; allowed: those that did when make_private was "
                "called. Train it under a plan that holds it"
            )
            raise errors.make("layout", text)
        self._noise.check(self.original_optimizer, noised)
        if self._noise.session.is_on_grid:
            # A sum has the type of its parameter.
            check_float32({self._names[id(p)]: p for p in noised})
        self._steps.before(self)
        is_ready = super().pre_step(closure)  # type: ignore[misc]
        if is_ready:
            self._attachment.is_ready = True
            self._steps.done()
        return is_ready

    def zero_grad(self: Any, set_to_none: bool = False) -> None:
        super().zero_grad(set_to_none)  # type: ignore[misc]
        self._steps.gradients_removed()

    @torch.no_grad()
    def clip_and_accumulate(self: Any) -> None:
        """Adds the clipped sum to that of the logical batch, outside of autocast, and on a grid by this package's arithmetic.

        Opacus's is a product of matrices, in the precision that PyTorch allows at the time, with norms of the gradients' type.
        """
        if not self._noise.session.is_on_grid:
            # A sum of another type than the parameter's would be refused as its gradient, after the row.
            with without_autocast({p.device.type for p in self.params}):
                super().clip_and_accumulate()  # type: ignore[misc]
            return
        for p in self.params:
            _check_processed_flag(p.grad_sample)
        found = {self._names[id(p)]: self._get_flat_grad_sample(p) for p in self.params}
        sums = summed(found, self.max_grad_norm)
        for p in self.params:
            value = sums[self._names[id(p)]]
            p.summed_grad = value if p.summed_grad is None else p.summed_grad + value
            _mark_as_processed(p.grad_sample)

    @torch.no_grad()
    def add_noise(self: Any) -> None:
        for p in self.params:
            _check_processed_flag(p.summed_grad)
        sums = {self._names[id(p)]: p.summed_grad for p in self.params}
        noisy = {name: value.clone() for name, value in sums.items()}
        self._noise.made_here = set(sums)
        if not self._noise.add_all(noisy, 1.0):
            self._noise.add(self._noise.row(sums, 1.0), noisy, 1.0)
        for p in self.params:
            p.grad = noisy[self._names[id(p)]].view_as(p)
            _mark_as_processed(p.summed_grad)

    def reduce_gradients(self: Any) -> None:
        """Adds up the ranks' gradients; on a grid their integers were added up with the noise."""
        if not (self._noise.reduce and self._noise.session.is_on_grid):
            super().reduce_gradients()  # type: ignore[misc]
        elif self.loss_reduction == "mean":
            for p in self.params:
                p.grad /= self.world_size

    def __getstate__(self) -> Any:
        return refuse_copy()

    def discard(self: Any) -> None:
        """Discards the sums of the current logical batch."""
        self._step_skip_queue.clear()
        self._is_last_step_skipped = False
        self.zero_grad()
        self._steps.done()


def noised_optimizer(noise: Noise, choice: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Returns the optimizer that Opacus chooses for ``choice``, created with ``arguments``, with ``noise`` as its own."""
    base = get_optimizer_class(**choice)
    created: DPOptimizer = type(f"Noised{base.__name__}", (NoisedOptimizer, base), {})(**arguments)
    named: Any = created
    named._noise = noise
    named._names = {id(p): name for name, p in noise.parameters.items()}
    named._steps = StepCheck(noise)
    # The optimizer's state carries the cursor, and so do the engine's checkpoints.
    named._attachment = EngineAttachment(arguments["optimizer"], noise)
    named._attachment.optimizer = created
    return created


def is_within_batch(optimizer: Any) -> bool:
    """Returns whether the optimizer has sums of a logical batch that is not complete."""
    return bool(optimizer._is_last_step_skipped or optimizer._step_skip_queue)


class EngineAttachment(Attachment):
    """The attachment of an engine: the engine's optimizer adds the noise, and the one within steps by it alone."""

    optimizer: Any = None

    def __init__(self, optimizer: torch.optim.Optimizer, noise: Noise):
        super().__init__(optimizer, noise, 1.0, watch_gradients=False)
        #: Whether gradients have the noise of a step that the optimizer within has not taken.
        self.is_ready = False

    def check_not_paused(self) -> None:
        """Refuses a step of the engine's optimizer within :meth:`paused`: it has the noise of a row, or no gradients."""
        if self._paused:
            text = (
                "the engine's optimizer is stepped within paused(), where steps have no noise; allowed: steps of "
                "optimizer.original_optimizer with gradients that are zero or None"
            )
            raise errors.make("step", text)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if self._paused:
            return self._before_paused(optimizer, args, kwargs)
        if is_nested(optimizer):
            return None
        if not self.is_ready:
            text = (
                f"{type(optimizer).__name__} is stepped by itself, without noise; allowed: the optimizer that make_private "
                "returned"
            )
            raise errors.make("step", text)
        self.is_ready = False
        self._movement.begin(optimizer)
        return None

    def _discard(self) -> None:
        super()._discard()
        self.is_ready = False
        if self.optimizer is not None:
            self.optimizer.discard()
