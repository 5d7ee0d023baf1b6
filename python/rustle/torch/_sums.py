"""Sums of clipped gradients with the bits that κ of a plan on a grid assumes, whatever precision matrix products have."""

from __future__ import annotations

import contextlib
import math
from typing import Iterator, Mapping

import torch

# Values that are widened and scaled together: their copies are all that a sum needs beside the gradients.
_PART = 1 << 24


def wide(dtype: torch.dtype) -> torch.dtype:
    """Returns the type that gradients of ``dtype`` are summed in: float32 at least."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def summed(gradients: Mapping[str, torch.Tensor], clip_norm: float) -> dict[str, torch.Tensor]:
    """Returns sums over the first axis of gradients that are clipped to ``clip_norm``, all of an example together.

    Norms are added up in float64, scales rounded down, products and sums taken elementwise in float32 (float64 of such
    gradients), outside of autocast. Gradients may have any type: what a record's is, is clipped like any other.
    """
    with without_autocast({value.device.type for value in gradients.values()}):
        flat = {name: value.reshape(len(value), math.prod(value.shape[1:])) for name, value in gradients.items()}
        device = next(iter(flat.values())).device
        norms = torch.stack([_norms(value).to(device) for value in flat.values()]).norm(dim=0)
        # An example whose gradient is not finite makes the sum so, which the step refuses.
        scale = clip_norm / norms.clamp(min=clip_norm)
        return {name: _scaled(scale, value).view(gradients[name].shape[1:]) for name, value in flat.items()}


def rounded_down(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns positive numbers in a type of fewer bits, none larger than it was."""
    rounded = scale.to(dtype)
    below = torch.nextafter(rounded, torch.zeros_like(rounded))
    return torch.where(rounded.double() > scale, below, rounded)


def _norms(value: torch.Tensor) -> torch.Tensor:
    # Squares that are added one after the other in float32 lose whole per cents of a long vector's norm.
    return torch.cat([part.norm(dim=1, dtype=torch.float64) for part in value.split(_rows(value))])


def _scaled(scale: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    dtype, rows = wide(value.dtype), _rows(value)
    factors = rounded_down(scale, dtype).to(value.device)[:, None]
    total = torch.zeros(value.shape[1], dtype=dtype, device=value.device)
    # Not a product of matrices, which may be computed in TF32 or bfloat16.
    for part, factor in zip(value.split(rows), factors.split(rows), strict=True):
        total += (factor * part.to(dtype)).sum(0)
    return total


def _rows(value: torch.Tensor) -> int:
    return max(1, _PART // max(1, value.shape[1]))


@contextlib.contextmanager
def without_autocast(devices: set[str]) -> Iterator[None]:
    """Leaves autocast for these types of devices."""
    with contextlib.ExitStack() as stack:
        for device in filter(torch.amp.is_autocast_available, devices):
            stack.enter_context(torch.autocast(device, enabled=False))
        yield
