"""Wrappers that add up gradients over ranks in fewer bits than κ of a plan on a grid assumes."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from .. import errors

_ENOUGH = (None, torch.float32, torch.float64)
# PyTorch's communication hooks, all but one of which compress gradients.
_HOOKS, _WHOLE = "torch.distributed.algorithms.ddp_comm_hooks.", "allreduce_hook"


def check_reductions(model: torch.nn.Module) -> None:
    """Refuses a model whose gradients are added up over ranks in fewer bits than float32.

    Raises:
        rustle.errors.InvalidArgument: A policy of mixed precision of FSDP or DistributedDataParallel, or one of PyTorch's
            communication hooks, that rounds them.
    """
    for name, module in model.named_modules():
        found = _rounding(module)
        if found is not None:
            setting, way = found
            text = (
                f"module {name!r} has {setting}; allowed under a plan on a grid: gradients that are added up in float32, as "
                f"the plan's summing_error covers no sum in fewer bits. {way}, or take a plan with float=True"
            )
            raise errors.make("invalid_argument", text)


def _rounding(module: Any) -> tuple[str, str] | None:
    """Returns what of a wrapper rounds the sums, in words, and the way out of it."""
    policies = [getattr(module, "mixed_precision", None)]
    state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
    policies.append(getattr(state, "_mp_policy", None))
    for policy in policies:
        dtype = getattr(policy, "reduce_dtype", None) or getattr(policy, "param_dtype", None)
        if dtype not in _ENOUGH:
            return f"a mixed precision whose sums over ranks are {dtype}", "State reduce_dtype=torch.float32 in it"
    if isinstance(module, DistributedDataParallel):
        for hook, _ in module._comm_hooks:
            if hook.__module__.startswith(_HOOKS) and hook.__name__ != _WHOLE:
                return f"the communication hook {hook.__name__}, which compresses gradients", "Leave the hook out"
    return None
