"""PyTorch: noise added to gradients just before an optimizer steps.

::

    attachment = rustle.torch.attach(optimizer, session, model, divide_by=batch_size)

Gradients must be clipped sums of contributions (or such sums divided by ``divide_by``) when ``optimizer.step()`` is
called: clipping is the caller's, or Opacus's (:mod:`rustle.opacus`).
"""

from __future__ import annotations

import torch

from .. import _arguments
from . import _tensors
from ._attach import attach
from ._attachment import Attachment
from ._clipping import clipped_sum
from ._loader import DataLoader, in_order
from ._noise import Named, Noise
from ._optimizer import Optimizer
from ._plain import check_named
from ._sampler import BatchSampler

__all__ = [
    "Attachment",
    "BatchSampler",
    "DataLoader",
    "Noise",
    "Optimizer",
    "attach",
    "clipped_sum",
    "in_order",
    "layout",
]


def layout(model: Named) -> list[tuple[str, tuple[int, ...]]]:
    """Returns names and shapes of the parameters that have noise, for the argument ``parameters`` of :func:`rustle.plan`."""
    check_named(model)
    pairs = model.named_parameters() if isinstance(model, torch.nn.Module) else model
    found = [(_tensors.plain_name(name), p) for name, p in pairs if p.requires_grad]
    for name, p in found:
        _arguments.real(f"parameter {name!r}", p.dtype, p.is_floating_point())
    return [(name, tuple(p.shape)) for name, p in found]
