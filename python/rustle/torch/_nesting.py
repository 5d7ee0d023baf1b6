"""Whether a step is one within a step: an optimizer of one's own that calls ``super().step()``."""

from __future__ import annotations

import sys

import torch

# What torch.optim makes of each class's step: it calls the hooks. One code, of whatever class.
_STEP = torch.optim.Optimizer.profile_hook_step(lambda optimizer: None).__code__


def is_nested(optimizer: torch.optim.Optimizer) -> bool:
    """Returns whether a hook of the optimizer is called by a step of it that another step of it calls.

    By what is on the stack now. A flag that a step sets would stay where the step raises, and the next one would pass for a
    step within it, without noise.
    """
    frame, found = sys._getframe(1), 0
    while frame is not None and found < 2:
        if frame.f_code is _STEP and frame.f_locals.get("self") is optimizer:
            found += 1
        frame = frame.f_back  # type: ignore[assignment]
    return found == 2
