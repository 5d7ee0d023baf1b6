"""Whether tensors are those that the layout has coordinates for: the shape of each, and values with memory of their own."""

from __future__ import annotations

from typing import Mapping

import torch

from .. import errors
from .._layout import Layout, Piece


def check_parameters(layout: Layout, parameters: Mapping[str, torch.Tensor]) -> None:
    """Refuses parameters that have another shape than the plan gives them, as those that grew or shrank since.

    Each coordinate of a row is for one value. Those of a longer tensor would have the next parameter's noise, or one value's
    for several, and the difference of such two is released without noise.
    """
    for name, parameter in parameters.items():
        planned = layout.parameters[name].shape
        if tuple(parameter.shape) != planned:
            text = (
                f"parameter {name!r} has shape {tuple(parameter.shape)} now; allowed: {planned}, as when noise was attached. Train "
                "a model of another size under a plan of its own"
            )
            raise errors.make("layout", text)


def check_sums(pieces: Mapping[str, Piece], sums: Mapping[str, torch.Tensor]) -> None:
    """Refuses local sums that noise can't be added to, value by value."""
    for name, value in sums.items():
        if tuple(value.shape) != pieces[name].shape:
            text = (
                f"the gradient of {name!r} has shape {tuple(value.shape)} here; allowed: {pieces[name].shape}, which the plan has "
                "noise for"
            )
            raise errors.make("layout", text)
        wrong = _without_values(value)
        if wrong is not None:
            raise errors.make("invalid_argument", f"the gradient of {name!r} {wrong}")


def is_dense(value: torch.Tensor) -> bool:
    """Returns whether each value has memory, in strides."""
    return value.layout == torch.strided and value.device.type != "meta"


def _without_values(value: torch.Tensor) -> str | None:
    if value.layout != torch.strided:
        return (
            f"is {value.layout}, which says by its places what the batch has; allowed: dense gradients, as of sparse=False, or "
            "p.grad.to_dense() before the step"
        )
    if value.device.type == "meta":
        return "is on the meta device, without values; allowed: a model in memory, as of model.to_empty(device=…)"
    if any(length > 1 and stride == 0 for length, stride in zip(value.shape, value.stride())):
        return "has one value in memory for several of its own; allowed: memory for each, as of .contiguous()"
    return None
