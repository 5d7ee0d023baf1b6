"""Checks of trainers that frameworks bring, before their first step."""

from __future__ import annotations

from typing import Any

from .. import errors
from .._session import Session
from . import _owners
from ._loader import DataLoader


def has_noise(optimizer: Any) -> bool:
    """Returns whether noise is attached to the optimizer, or to the one that a framework's wrapper holds."""
    for _ in range(3):
        if _owners.is_attached(optimizer):
            return True
        optimizer = getattr(optimizer, "optimizer", None)
    return False


def check_trainer(optimizers: list[Any], loader: Any, accumulated: int) -> None:
    """Refuses optimizers without noise, a loader whose batches nothing checks, and several batches for one step."""
    if accumulated != 1:
        text = (
            f"{accumulated} batches are accumulated for a step; allowed: 1. rustle.torch.clipped_sum(…, microbatch=…) makes "
            "a large batch's sum in parts"
        )
        raise errors.make("invalid_argument", text)
    for optimizer in optimizers:
        if not has_noise(optimizer):
            text = (
                f"the {type(optimizer).__name__} has no noise; allowed: one that rustle.torch.attach was called with"
            )
            raise errors.make("invalid_argument", text)
    if not isinstance(loader, DataLoader):
        text = (
            f"the training loader is a {type(loader).__name__}, whose batches nothing checks; allowed: "
            "rustle.torch.DataLoader(data, rounds), or rustle.torch.in_order"
        )
        raise errors.make("batches", text)


def check_sum_is_kept(session: Session, name: str, most: float | None) -> None:
    """Refuses a trainer that clips sums before their noise, under a plan on a grid: in float32, which no κ covers."""
    if session.is_on_grid and most:
        text = (
            f"{name} is {most} under a plan on a grid, whose sums are clipped before their noise, in floating point; allowed: "
            "0. Clip each record's gradient, as rustle.torch.clipped_sum does"
        )
        raise errors.make("invalid_argument", text)
