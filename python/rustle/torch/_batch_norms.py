"""Layers that mix examples, and keep means of them that have no noise."""

from __future__ import annotations

import torch

from .. import errors

Layers = list[tuple[str, torch.nn.Module]]


def batch_norms(model: torch.nn.Module) -> Layers:
    """Returns the batch normalisation layers of a model, with their names."""
    kind = torch.nn.modules.batchnorm._BatchNorm
    return [(name, module) for name, module in model.named_modules() if isinstance(module, kind)]


def check_no_running_means(layers: Layers, *, mixes: bool = False) -> None:
    """Refuses layers that update running means now; with ``mixes``, all that use the batch's own."""
    for name, layer in layers:
        if layer.training and (mixes or layer.track_running_stats):
            text = (
                f"layer {name!r} is {type(layer).__name__} in training mode, which mixes examples and keeps means without "
                "noise; allowed: GroupNorm, LayerNorm, or the layer in evaluation mode (.eval())"
            )
            raise errors.make("mixes_examples", text)
