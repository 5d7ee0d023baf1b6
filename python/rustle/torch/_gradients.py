"""Gradients that are those of this step, and not of an earlier step."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Iterable

import torch

from .. import errors
from ._tensors import local_part

# Of a gradient that was stepped with: the count of its in-place changes when it was.
_STEPPED = "_rustle_stepped_at"
# Of a gradient that a backward pass added to after it was stepped with.
_ADDED_TO = "_rustle_added_to"

# Of a gradient made by clipped_sum: what it says of itself.
_MADE = "_rustle_made"
# The count of its in-place changes when it was made, and whether a backward pass added to it as it was then.
_MADE_AT, _ADDED_TO_MADE = "_rustle_made_at", "_rustle_added_to_made"


@dataclass(frozen=True)
class Made:
    """How a clipped sum was made: of how many records, clipped to what, divided by what."""

    records: int
    clip_norm: float
    divide_by: float

    def note(self, grad: torch.Tensor) -> None:
        """Notes it at a gradient, as plain numbers, which any checkpoint of gradients can hold."""
        setattr(grad, _MADE, astuple(self))
        setattr(grad, _MADE_AT, grad._version)


def is_made(grad: torch.Tensor) -> bool:
    """Returns whether :func:`rustle.torch.clipped_sum` made the gradient."""
    return hasattr(grad, _MADE)


def records_of(grads: Iterable[torch.Tensor | None]) -> int | None:
    """Returns of how many records gradients are that :func:`rustle.torch.clipped_sum` made, and nothing changed; else None."""
    found = set()
    for grad in grads:
        if grad is not None:
            if getattr(grad, _MADE_AT, None) != grad._version:
                return None
            found.add(Made(*getattr(grad, _MADE)).records)
    return max(found, default=None)


def check_none_frozen(parameters: dict[str, torch.nn.Parameter]) -> None:
    """Refuses parameters that have noise and require no gradient any more."""
    for name, parameter in parameters.items():
        if not parameter.requires_grad:
            text = (
                f"parameter {name!r} was frozen after noise was attached, and would be moved by noise alone; allowed: "
                "parameters that require gradients. Detach, and train under a plan without it"
            )
            raise errors.make("layout", text)


class GradientWatch:
    """Refuses a step with gradients that had their step already, or that were added to without ``zero_grad``.

    The sum of a batch must have the noise of one row. A second step with the same gradients gives it that of two rows;
    gradients that are not set to zero carry a batch, and the noise of its row, into the rows that follow.
    """

    def __init__(self, parameters: dict[str, torch.nn.Parameter]):
        self._parameters = parameters
        # How often a backward pass added to a gradient, so far and until the last step.
        self._additions = self._additions_at_step = 0
        self._handles = [p.register_post_accumulate_grad_hook(self._note_addition) for p in parameters.values()]

    def check(self) -> None:
        """Refuses gradients of a step before, and parameters that were frozen."""
        check_none_frozen(self._parameters)
        for name, parameter in self._parameters.items():
            grad = parameter.grad
            if grad is None:
                continue
            if getattr(grad, _ADDED_TO, False):
                text = (
                    f"the gradient of {name!r} holds that of the step before; call optimizer.zero_grad() before each "
                    "backward pass"
                )
                raise errors.make("stale_gradients", text)
            if getattr(grad, _ADDED_TO_MADE, False):
                text = (
                    f"a backward pass added to the gradient of {name!r}, which clipped_sum made, what nothing clipped; allowed: "
                    "that sum alone. A penalty on the weights is the optimizer's weight_decay, or part of each record's loss"
                )
                raise errors.make("sum_too_large", text)
            if getattr(grad, _STEPPED, None) == grad._version:
                text = (
                    f"the gradient of {name!r} had its step already; allowed: one step for each gradient. Call "
                    "optimizer.zero_grad() and compute gradients first"
                )
                raise errors.make("stale_gradients", text)

    def check_made(self, records: float | None, clip_norm: float, divide_by: float) -> None:
        """Refuses gradients that say to be made of more records, or otherwise, than the step allows."""
        notes = {getattr(p.grad, _MADE, None) for p in self._parameters.values()} - {None}
        for made in (Made(*note) for note in notes):
            if records is not None and made.records > records:
                text = f"the gradients are of {made.records} records; allowed: {records:g}, as the step's batch has here"
                raise errors.make("step", text)
            for name, value, most in (
                ("clip_norm", made.clip_norm, clip_norm),
                ("divide_by", divide_by, made.divide_by),
            ):
                if value > most:
                    text = (
                        f"clipped_sum had clip_norm {made.clip_norm:g} and divide_by {made.divide_by:g}; allowed: the plan's "
                        f"clip_norm {clip_norm:g}, and the divide_by of the attachment, {divide_by:g} ({name})"
                    )
                    raise errors.make("sum_too_large", text)

    def check_none(self, round: int) -> None:
        """Refuses gradients that are left of a round which is handed out again: they would count twice."""
        if any(_is_unstepped(parameter.grad) for parameter in self._parameters.values()):
            text = (
                f"round {round} is handed out again, and there are gradients of its first time; allowed: none. Call "
                "optimizer.zero_grad(), or attachment.skip() to leave the round out"
            )
            raise errors.make("stale_gradients", text)

    def check_none_added(self) -> None:
        """Refuses gradients of a backward pass within the step, which its noise is not in."""
        if self._additions != self._additions_at_step:
            text = (
                "the optimizer's step ran a backward pass after its noise was added; allowed: one sum of gradients for each step, "
                "made before it"
            )
            raise errors.make("stale_gradients", text)

    def note_step(self) -> None:
        """States that all gradients had their step."""
        self._additions_at_step = self._additions
        for parameter in self._parameters.values():
            if parameter.grad is not None:
                setattr(parameter.grad, _STEPPED, parameter.grad._version)

    def detach(self) -> None:
        """Stops watching."""
        for handle in self._handles:
            handle.remove()

    def _note_addition(self, parameter: torch.Tensor) -> None:
        grad: Any = parameter.grad
        self._additions += 1
        # Setting it to zero counts as another change.
        if grad is not None and getattr(grad, _STEPPED, None) == grad._version - 1:
            setattr(grad, _ADDED_TO, True)
        if grad is not None and getattr(grad, _MADE_AT, None) == grad._version - 1:
            setattr(grad, _ADDED_TO_MADE, True)


def _is_unstepped(grad: Any) -> bool:
    return getattr(grad, _STEPPED, None) != getattr(grad, "_version", None) and not is_zero(grad)


def is_zero(grad: torch.Tensor | None) -> bool:
    """Returns whether a gradient has no value but zeros on this rank."""
    if grad is None or grad.device.type == "meta":
        return True
    values = local_part(grad)
    return not (values if values.layout == torch.strided else values.coalesce().values()).any()
