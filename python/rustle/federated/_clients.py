"""What a client does in a round: ClientUpdate of McMahan, Xu, Zhang (2024), Algorithm 1."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import numpy as np

from .. import _arguments, errors


def local_update(
    parameters: np.ndarray,
    batches: Iterable[Any],
    gradient: Callable[[np.ndarray, Any], np.ndarray],
    learning_rate: float,
) -> np.ndarray:
    """The change y − y⁽⁰⁾ that one step of SGD a batch makes; not clipped yet.

    ``parameters``: the server's model, any shape; it stays as it is. ``gradient(parameters, batch)``: of that shape.
    """
    start = np.asarray(parameters, np.float64)
    here = start.copy()
    for batch in batches:
        here -= learning_rate * gradient(here, batch)
    return here - start


def clip(update: np.ndarray, norm: float) -> np.ndarray:
    """``update``·min(1, norm/‖update‖), float64; of any shape, the norm being that of all of it."""
    _arguments.real("update", np.asarray(update).dtype, not np.iscomplexobj(update))
    update = np.asarray(update, np.float64)
    norm = _arguments.above_zero("norm", norm)
    length = norm_of(update)
    return update if length <= norm else update * (norm / length)


def norm_of(update: np.ndarray) -> float:
    """‖update‖₂. Refuses what is not finite: one such client would spoil the sum of all."""
    values = np.asarray(update, np.float64).reshape(-1)
    largest = float(np.abs(values).max(initial=0.0))
    if not np.isfinite(largest):
        raise errors.make("invalid_argument", "an update is not finite; allowed: finite ones. Leave that client out")
    # Scaled, as squares of large numbers leave float64.
    return largest * float(np.linalg.norm(values / largest)) if largest > 0 else 0.0
