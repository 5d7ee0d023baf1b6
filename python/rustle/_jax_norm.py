"""The norm of a tree of arrays, in a callback and outside."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np


def norm_of(leaves: list[Any]) -> float:
    """The Euclidean norm of all arrays together; not finite where one of them is not."""
    squares = 0.0
    for leaf in leaves:
        numpy = np if isinstance(leaf, np.ndarray) else jnp
        # The largest value first: squares of float32 overflow above 1e19.
        most = float(numpy.abs(leaf).max()) if leaf.size else 0.0
        if not math.isfinite(most):
            return math.inf
        if most:
            scaled = leaf.astype(numpy.float32) / numpy.float32(most)
            squares += most * most * float(numpy.square(scaled).sum())
    return math.sqrt(squares)
