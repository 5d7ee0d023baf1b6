"""How many records a run's batches have at most, and what their sums then cost on a grid."""

from __future__ import annotations

import bisect
import math

from . import errors
from .grid import summing_error

#: The way out of what a grid needs.
FLOATS = "float=True, whose rows are floating-point numbers that don't hold against precision attacks (docs/grid.md)"

# The probability that any batch of a run is larger. Such a batch is refused, so no account depends on it.
_LARGER = 1e-16


def largest_batch(records: int, batches: int, poisson_rounds: int | None) -> int:
    """Returns the most records of a batch, where a pass through ``records`` has so many batches.

    Args:
        records: The number of records.
        batches: The batches of a pass.
        poisson_rounds: None where records are dealt out evenly. The rounds of Poisson sampling: there a larger batch has a
            probability of at most 1e-16 over all of them.
    """
    if poisson_rounds is None or batches == 1:
        return -(-records // batches)
    probability, most = 1 / batches, math.log(_LARGER / poisson_rounds)

    def is_rarely_exceeded(size: int) -> bool:
        if size >= records:
            return True
        # Beyond the mean each probability is at most ``ratio`` of the one before: a geometric series bounds their sum.
        first = size + 1
        ways = math.lgamma(records + 1) - math.lgamma(first + 1) - math.lgamma(records - first + 1)
        exactly = ways + first * math.log(probability) + (records - first) * math.log1p(-probability)
        ratio = (records - first) * probability / ((first + 1) * (1 - probability))
        return exactly - math.log1p(-ratio) <= most

    least = -(-records // batches)
    return least + bisect.bisect_left(range(least, records), True, key=is_rarely_exceeded)


def batch_summing_error(largest: int, dimension: int, norm_dtype: str | None) -> float:
    """Returns κ of sums of up to ``largest`` clipped gradients that are added in float32, in any order.

    Args:
        largest: The most records of a batch.
        dimension: Coordinates of a gradient.
        norm_dtype: As of :func:`rustle.grid.summing_error`; None for float32 that is not the caller's to choose.

    Raises:
        rustle.errors.InvalidArgument: No plan on a grid covers such sums.
    """
    if norm_dtype not in (None, "float32", "float64"):
        text = f"norm_dtype is {norm_dtype!r}; allowed: float32, float64, which a gradient's squares are added in"
        raise errors.make("invalid_argument", text)
    try:
        found = summing_error(largest, dimension, norm_dtype=norm_dtype or "float32")
    except errors.InvalidArgument:
        # Nothing is left of the bits.
        found = math.inf
    if found > 1:
        ways = ["smaller batches", FLOATS]
        if norm_dtype == "float32":
            ways.insert(1, 'norm_dtype="float64" where the norm of each gradient is accumulated so')
        text = (
            f"batches have up to {largest} records and gradients {dimension} coordinates, which in float32 have a summing_error "
            f"of {found:.3g}; allowed on a grid: at most 1, so {', or '.join(ways)}"
        )
        raise errors.make("invalid_argument", text)
    return found
