"""Whether the κ of a plan on a grid covers a sum of so many contributions."""

from __future__ import annotations

import functools
import math
import warnings
from typing import TYPE_CHECKING, Any

from . import errors
from .grid import summing_error

if TYPE_CHECKING:
    from ._session import Session

#: Roundings on the way of a contribution into a sum in float64 that is rounded to float32 once.
IN_FLOAT64 = 2


class KappaCheck:
    """Compares the records of a step's sum with the plan's ``summing_error``, which the job alone states.

    Refused is a sum that no way of adding so many in floating point has so little error for. One that only a short
    path, such as pairwise adding, has it for gets one warning, :class:`rustle.errors.Unchecked`.

    Args:
        session: The session; plans without a grid, and those with the rounding "contributions", have nothing to compare.
        roundings: m of :func:`rustle.grid.summing_error`, where the adapter adds by itself and knows it.
        way: What a caller may state of its sums, for messages where m is not known.
    """

    def __init__(self, session: Session, *, roundings: int | None = None, way: str = ""):
        self._session, self._roundings, self._way, self._warned = session, roundings, way, False

    def check(self, records: float | None) -> None:
        """Checks a sum of that many contributions, before its row is bound; None where nothing knows how many.

        Raises:
            rustle.errors.InvalidArgument: The plan's κ does not cover the sum.
        """
        if records is None or not records > 0:
            return
        grid = self._grid
        if grid is None or grid["rounding"] == "contributions":
            return
        count, kappa = math.ceil(records), grid["summing_error"]
        known = self._roundings
        least = self._error(count, known if known is not None else math.ceil(math.log2(count)) + 1)
        if least > kappa:
            text = (
                f"the sum has {count} contributions, whose summing_error is {least:.4g} at least; allowed: the plan's "
                f"{kappa:.4g}, so fewer of them in one floating-point sum (integers of micro-batches: rustle.grid.Sum), or a "
                f"plan with a larger batch_size{self._way}"
            )
            raise errors.make("batches", text)
        if known is None and not self._warned and self._error(count, count) > kappa:
            self._warned = True
            text = (
                f"the plan's summing_error {kappa:.4g} covers sums of {count} contributions only if they are added pairwise or "
                f"in float64, which nothing checks; a plan with a batch_size of as many covers every order{self._way}"
            )
            warnings.warn(text, errors.Unchecked, stacklevel=2)

    @functools.cached_property
    def _grid(self) -> dict[str, Any] | None:
        # A plan with long coefficients takes longer to read than a small step.
        return self._session.plan.grid

    def _error(self, records: int, roundings: int) -> float:
        try:
            return summing_error(records, self._session.dimension, roundings=roundings, norm_dtype="float64")
        except errors.InvalidArgument:
            # So many that float32 keeps no bits.
            return math.inf
