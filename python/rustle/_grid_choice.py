"""Whether a plan's rows are integers on a grid, and what its account then takes from the job's sums."""

from __future__ import annotations

import math
from typing import Sequence

from . import _arguments, _native, errors
from .grid import summing_error as summing_error_of

#: Why no plan on a grid is accounted for under add-remove.
ADD_REMOVE = (
    "a batch of one record fewer may change the bits of other gradients, which no summing error covers (docs/grid.md)"
)


def delta_left(epsilon: float, delta: float) -> float:
    """Returns the δ that a mechanism on a grid may have at ε where the run is to keep ``delta``."""
    return _native.delta_on_grid(epsilon, delta)


def chosen(
    dimension: int | None,
    parameters: Sequence[tuple[str, Sequence[int]]] | None,
    batch_size: int | None,
    summing_error: float | None,
    rounding: str | None,
    norm_dtype: str,
    floats: bool,
    roundings: int | None = None,
) -> tuple[float | None, str | None] | None:
    """Returns κ and rounding of a plan on a grid, None where floating-point rows are requested.

    ``roundings``: of :func:`rustle.grid.summing_error`, with ``batch_size``.

    Raises:
        rustle.errors.InvalidArgument: Nothing says how the job sums, or it is said twice.
    """
    given = {"batch_size": batch_size, "summing_error": summing_error, "rounding": rounding}
    if _arguments.flag("float", floats):
        for name, value in given.items():
            if value is not None:
                raise errors.make("invalid_argument", f"{name} is {value} and float is True; allowed: one of them")
        return None
    out = "or float=True, whose rows are floating-point numbers that don't hold against precision attacks (docs/grid.md)"
    size = dimension
    if size is None and parameters is not None:
        size = sum(math.prod(shape) for _, shape in parameters)
    if size is None:
        text = f"dimension and parameters are missing; allowed: one of them, which an account on a grid depends on, {out}"
        raise errors.make("invalid_argument", text)
    if summing_error is not None:
        summing_error = _arguments.number("summing_error", summing_error)
    if rounding is not None:
        rounding = _arguments.text("rounding", rounding, "nearest, dithered, contributions")
    if batch_size is not None:
        batch_size = _arguments.whole("batch_size", batch_size, 1)
        if summing_error is not None:
            text = f"batch_size is {batch_size} and summing_error is {summing_error}; allowed: one of them"
            raise errors.make("invalid_argument", text)
        if rounding == "contributions":
            text = f"batch_size is {batch_size} with the rounding contributions; allowed: None, as its sums are exact"
            raise errors.make("invalid_argument", text)
        kappa = summing_error_of(batch_size, size, roundings=roundings, norm_dtype=norm_dtype)
        if kappa > 1:
            text = (
                f"batch_size is {batch_size}, whose summing_error is {kappa:.2g}; allowed: so few that it is at most 1. Add "
                "micro-batches in float32, and their integers (rustle.grid.Sum)"
            )
            raise errors.make("invalid_argument", text)
        return kappa, rounding
    if summing_error is None and rounding != "contributions":
        text = (
            "nothing says what clipping and summing add to a norm, which an account on a grid depends on; allowed: "
            "batch_size, the clipped gradients that are added in float32, or summing_error (rustle.grid.summing_error), or "
            f'rounding="contributions", {out}'
        )
        raise errors.make("invalid_argument", text)
    return summing_error, rounding
