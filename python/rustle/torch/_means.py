"""Gradients that look like means where sums are expected."""

from __future__ import annotations

import warnings

from .. import errors

# Sums of fewer records are often no longer than one of them can be.
_RECORDS, _STEPS = 16, 5


class MeanWatch:
    """Warns where the first sums of many contributions are all no longer than one contribution can be.

    Noise for a sum, added to a mean, is too large by the number of records: as private as planned and more, but nothing
    is learned.
    """

    def __init__(self, divide_by: float):
        self._left = _STEPS if divide_by == 1 else 0

    def see(self, norm: float, records: float | None, clip_norm: float) -> None:
        """Looks at the sum of a step, and at the norm that its contributions were clipped to."""
        if not self._left or records is None or records < _RECORDS:
            return
        if norm > clip_norm:
            self._left = 0
            return
        self._left -= 1
        if not self._left:
            text = (
                f"{_STEPS} sums of {records:g} contributions were all no longer than one, {clip_norm:g}: gradients that "
                "are means need attach(divide_by=…), the number that their sum was divided by"
            )
            warnings.warn(text, errors.Unchecked, stacklevel=5)
