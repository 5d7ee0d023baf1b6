"""Layers that mix examples, and layers that keep means of them that have no noise."""

from __future__ import annotations

import warnings
from typing import Iterator

import torch

from .. import errors

_Norm = torch.nn.modules.batchnorm._NormBase
_BatchNorm = torch.nn.modules.batchnorm._BatchNorm


def check_no_running_means(model: torch.nn.Module, *, mixes: bool = False) -> None:
    """Refuses normalisation that updates running means now; with ``mixes``, also what uses the batch's own.

    Layers are looked up now: some may have been added since noise was attached.
    """
    for name, layer in model.named_modules():
        if not isinstance(layer, _Norm) or not layer.training:
            continue
        if layer.track_running_stats or (mixes and isinstance(layer, _BatchNorm)):
            what = "mixes examples and keeps means" if isinstance(layer, _BatchNorm) else "keeps means of examples"
            text = (
                f"layer {name!r} is {type(layer).__name__} in training mode, which {what} without noise; allowed: GroupNorm, "
                "LayerNorm, InstanceNorm without track_running_stats, or the layer in evaluation mode (.eval())"
            )
            raise errors.make("mixes_examples", text)


class BufferWatch:
    """Warns where a model's buffers of other kinds change from step to step: means of records among them have no noise."""

    # What changes with the parameters alone, of layers that PyTorch brings.
    _OF_PARAMETERS = ("_SpectralNorm", "SpectralNorm")

    def __init__(self, model: torch.nn.Module | None):
        self._model = model
        self._before: dict[str, tuple[torch.Tensor, int]] = {}
        self._warned = False

    def see(self) -> None:
        """Compares the buffers with those of the step before."""
        if self._model is None or self._warned:
            return
        now = {name: (buffer, buffer._version) for name, buffer in self._kept()}
        changed = [name for name, found in now.items() if _is_other(self._before.get(name, found), found)]
        self._before = now
        if changed:
            self._warned = True
            text = (
                f"buffer {changed[0]!r} of the model changed since the step before ({len(changed)} in all): noise is added to "
                "gradients alone. A buffer that depends on the records, such as a running mean, is released without noise"
            )
            warnings.warn(text, errors.Unchecked, stacklevel=5)

    def _kept(self) -> Iterator[tuple[str, torch.Tensor]]:
        assert self._model is not None
        for name, module in self._model.named_modules():
            if not module._buffers or not module.training or type(module).__name__ in self._OF_PARAMETERS:
                continue
            for own, buffer in module.named_buffers(name, recurse=False):
                if buffer.is_floating_point():
                    yield own, buffer


def _is_other(before: tuple[torch.Tensor, int], now: tuple[torch.Tensor, int]) -> bool:
    # The tensors themselves: a new one may have the address of one that is gone.
    return before[0] is not now[0] or before[1] != now[1]
