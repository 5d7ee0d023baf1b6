"""The largest norm that a sum of clipped contributions can have."""

from __future__ import annotations

import math

import numpy as np

from . import errors

# Rounding of a long sum, and of bfloat16: eight bits.
_SLACK = 1.01


def check_finite(sum: np.ndarray) -> None:
    """Refuses a sum with a value that is not finite, which noise would not hide."""
    # The dot product alone reads all values, once; it overflows where their squares do.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.dot(sum, sum))
    if not math.isfinite(squares) and not np.isfinite(sum).all():
        text = "the sum is not finite; leave the step out, with its row: session.skip()"
        raise errors.make("invalid_argument", text)


def check_norm(norm: float, divide_by: float, records: float, clip_norm: float) -> None:
    """Refuses a sum that can't be one of ``records`` contributions of norm at most ``clip_norm``.

    Args:
        norm: ‖sum‖ / ``divide_by``, that of the values as they are.
        divide_by: The number that the sum was divided by.
        records: The most contributions that the sum can hold.
        clip_norm: ζ, the plan's.

    A sum that passes may still be wrong: the norm bounds what can be seen of it.
    """
    whole, most = norm * divide_by, records * clip_norm
    if not whole <= most * _SLACK:
        text = (
            f"the sum has norm {whole:.4g}; allowed: {most:.4g}, that of {records:g} contributions clipped to "
            f"{clip_norm:g}. Clip each contribution to the plan's clip_norm, and let divide_by (now {divide_by:g}) be "
            "the number that their sum was divided by"
        )
        raise errors.make("sum_too_large", text)
