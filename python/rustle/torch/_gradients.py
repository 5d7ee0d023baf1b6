"""Gradients that are those of this step, and not of the one before."""

from __future__ import annotations

from typing import Any

import torch

from .. import errors

# Of a gradient that was stepped with: the count of its in-place changes when it was.
_STEPPED = "_rustle_stepped_at"
# Of a gradient that a backward pass added to after it was stepped with.
_ADDED_TO = "_rustle_added_to"

# Of a gradient made by clipped_sum: how many records it is of.
_RECORDS = "_rustle_records"


class GradientWatch:
    """Refuses a step with gradients that had their step already, or that were added to without ``zero_grad``.

    The sum of a batch must have the noise of one row. A second step with the same gradients gives it that of two rows;
    gradients that are not set to zero carry a batch, and the noise of its row, into the rows that follow.
    """

    def __init__(self, parameters: dict[str, torch.nn.Parameter]):
        self._parameters = parameters
        self._handles = [p.register_post_accumulate_grad_hook(_note_addition) for p in parameters.values()]

    def check(self) -> None:
        """Refuses gradients of a step before, and parameters that were frozen."""
        for name, parameter in self._parameters.items():
            if not parameter.requires_grad:
                text = (
                    f"parameter {name!r} was frozen after noise was attached, and would be moved by noise alone; allowed: "
                    "parameters that require gradients. Detach, and train under a plan without it"
                )
                raise errors.make("layout", text)
            grad = parameter.grad
            if grad is None:
                continue
            if getattr(grad, _ADDED_TO, False):
                text = (
                    f"the gradient of {name!r} holds that of the step before; call optimizer.zero_grad() before each "
                    "backward pass"
                )
                raise errors.make("stale_gradients", text)
            if getattr(grad, _STEPPED, None) == grad._version:
                text = (
                    f"the gradient of {name!r} had its step already; allowed: one step for each gradient. Call "
                    "optimizer.zero_grad() and compute gradients first"
                )
                raise errors.make("stale_gradients", text)

    def check_records(self, allowed: int) -> None:
        """Refuses gradients that say to be of more records than that."""
        records = max((getattr(p.grad, _RECORDS, 0) for p in self._parameters.values()), default=0)
        if records > allowed:
            text = f"the gradients are of {records} records; allowed: {allowed}, as many as the batch of the step has here"
            raise errors.make("step", text)

    def check_none(self, round: int) -> None:
        """Refuses gradients that are left of a round which is handed out again: they would count twice."""
        if any(_is_unstepped(parameter.grad) for parameter in self._parameters.values()):
            text = (
                f"round {round} is handed out again, and there are gradients of its first time; allowed: none. Call "
                "optimizer.zero_grad(), or attachment.skip() to leave the round out"
            )
            raise errors.make("stale_gradients", text)

    def note_step(self) -> None:
        """States that all gradients had their step."""
        for parameter in self._parameters.values():
            if parameter.grad is not None:
                setattr(parameter.grad, _STEPPED, parameter.grad._version)

    def detach(self) -> None:
        """Stops watching."""
        for handle in self._handles:
            handle.remove()


def note_records(grad: torch.Tensor, records: int) -> None:
    """Notes how many records a gradient is of."""
    setattr(grad, _RECORDS, records)


def _note_addition(parameter: torch.Tensor) -> None:
    grad: Any = parameter.grad
    # Setting it to zero counts as another change.
    if grad is not None and getattr(grad, _STEPPED, None) == grad._version - 1:
        setattr(grad, _ADDED_TO, True)


def _is_unstepped(grad: Any) -> bool:
    return grad is not None and getattr(grad, _STEPPED, None) != grad._version and bool(grad.any())
