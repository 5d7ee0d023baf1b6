"""Whether an optimizer moves the parameters that noise is spent on."""

from __future__ import annotations

import warnings

import torch

from .. import errors
from ._tensors import local_part

# Values of a parameter that are compared where its version says nothing.
_SOME = 64


class MovementWatch:
    """Warns after the first step where noise was added and a parameter was not written to.

    A parameter that never moves has its share of every row, and of ε, for nothing: often the model holds another copy
    of it than the optimizer.
    """

    def __init__(self, parameters: dict[str, torch.nn.Parameter]):
        self._parameters = parameters
        self._before: dict[str, tuple[int, torch.Tensor]] | None = None
        self._done = False

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Notes the parameters before the optimizer moves them, in a step that moves any."""
        # A warm-up may begin at a rate of zero.
        if not self._done and all(group.get("lr", 1.0) for group in optimizer.param_groups):
            self._before = {name: (p._version, _some_of(p)) for name, p in self._parameters.items()}

    def end(self) -> None:
        """Compares them with what they were."""
        if self._done or self._before is None:
            return
        self._done = True
        still = [name for name, p in self._parameters.items() if _is_as_before(p, *self._before[name])]
        self._before = None
        if still:
            text = f"noise was added for parameter {still[0]!r}, and the optimizer did not move it ({len(still)} in all)"
            warnings.warn(text, errors.Unchecked, stacklevel=5)


def _some_of(parameter: torch.Tensor) -> torch.Tensor:
    return local_part(parameter.detach()).reshape(-1)[:_SOME].clone()


def _is_as_before(parameter: torch.Tensor, version: int, some: torch.Tensor) -> bool:
    # Fused steps, and those of other libraries' kernels, write values without a new version.
    return parameter._version == version and (not len(some) or torch.equal(_some_of(parameter), some))
