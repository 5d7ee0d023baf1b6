"""Which optimizer a parameter has noise from: no other one may step it."""

from __future__ import annotations

import weakref
from typing import Any, Iterable

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from .. import errors

_owners: Any = WeakIdKeyDictionary()
_ATTACHED = "_rustle_attached"
_hook: Any = None
# By which GradScaler knows optimizers that unscale gradients themselves, within the step: after noise was added.
_UNSCALES = "_step_supports_amp_scaling"
_UNSCALED = "_rustle_unscaled"


def own(optimizer: torch.optim.Optimizer, parameters: Iterable[torch.Tensor]) -> None:
    """Makes every other optimizer refuse to step these parameters, and this one to be copied."""
    global _hook
    if _hook is None:
        _hook = register_optimizer_step_pre_hook(_refuse_other)
    for parameter in parameters:
        _owners[parameter] = weakref.ref(optimizer)
    setattr(optimizer, _ATTACHED, True)
    # What copy, deepcopy and pickle ask an object for. PyTorch's own answer leaves the hooks out.
    optimizer.__getstate__ = refuse_copy  # type: ignore[method-assign]
    if getattr(optimizer, _UNSCALES, False):
        setattr(optimizer, _UNSCALES, False)
        setattr(optimizer, _UNSCALED, True)


def disown(optimizer: torch.optim.Optimizer, parameters: Iterable[torch.Tensor]) -> None:
    """Undoes :func:`own`."""
    for parameter in parameters:
        owner = _owners.get(parameter)
        if owner is not None and owner() is optimizer:
            del _owners[parameter]
    if optimizer.__dict__.pop(_UNSCALED, False):
        setattr(optimizer, _UNSCALES, True)
    for name in (_ATTACHED, "__getstate__"):
        optimizer.__dict__.pop(name, None)


def is_attached(optimizer: Any) -> bool:
    """Returns whether the optimizer's steps have noise."""
    return bool(getattr(optimizer, _ATTACHED, False))


def _refuse_other(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if getattr(optimizer, _ATTACHED, False):
        return
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        if parameter.grad is not None and _owners.get(parameter) is not None:
            text = (
                f"a parameter of shape {tuple(parameter.shape)} has noise by another optimizer, and none by this "
                f"{type(optimizer).__name__}; allowed: the optimizer that noise was attached to. To go on with this one, "
                "call attachment.detach() and attach it"
            )
            raise errors.make("layout", text)


def refuse_copy() -> Any:
    text = (
        "an optimizer with noise can't be copied or pickled: the copy would step without noise; allowed: its "
        "state_dict(), loaded by an optimizer that noise is attached to"
    )
    raise errors.make("invalid_argument", text)
