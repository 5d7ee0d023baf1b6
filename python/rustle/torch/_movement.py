"""Whether an optimizer moves the parameters that noise is spent on."""

from __future__ import annotations

import warnings

import torch

from .. import errors


class MovementWatch:
    """Warns after the first step where noise was added and a parameter was not written to.

    A parameter that never moves has its share of every row, and of ε, for nothing: often the model holds another copy
    of it than the optimizer.
    """

    def __init__(self, parameters: dict[str, torch.nn.Parameter]):
        self._parameters = parameters
        self._before: dict[str, int] | None = None
        self._done = False

    def begin(self) -> None:
        """Notes the parameters before the optimizer moves them."""
        if not self._done:
            self._before = {name: p._version for name, p in self._parameters.items()}

    def end(self) -> None:
        """Compares them with what they were."""
        if self._done or self._before is None:
            return
        self._done = True
        still = [name for name, p in self._parameters.items() if p._version == self._before[name]]
        if still:
            text = f"noise was added for parameter {still[0]!r}, and the optimizer did not move it ({len(still)} in all)"
            warnings.warn(text, errors.Unchecked, stacklevel=5)
