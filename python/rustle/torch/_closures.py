"""Closures of optimizer steps, which compute gradients that noise is then added to."""

from __future__ import annotations

from typing import Any

import torch

from .. import errors


def run_first(
    optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Runs a step's closure before noise is added, and returns arguments whose closure returns the same loss.

    None where the step has no closure. An optimizer that evaluates it several times is refused: each evaluation is a
    sum of its own, and there is noise for one.
    """
    closure = kwargs.get("closure") or next((argument for argument in args if callable(argument)), None)
    if closure is None:
        return None
    if isinstance(optimizer, torch.optim.LBFGS):
        text = "LBFGS computes several gradients in a step, which has noise for one; allowed: SGD, Adam and their like"
        raise errors.make("invalid_argument", text)
    with torch.enable_grad():
        loss = closure()
    same = lambda: loss
    left = tuple(same if callable(argument) else argument for argument in args)
    return left, {**kwargs, "closure": same} if "closure" in kwargs else kwargs
