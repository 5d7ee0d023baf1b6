"""States of optimizers that a job continues at."""

from __future__ import annotations

from typing import Any, Mapping

import torch

from .. import errors


def cursor_of(state: Any) -> bytes:
    """Returns the cursor of a state that is whole."""
    allowed = "what state_dict() returned, with the texts cursor and layout"
    if not isinstance(state, Mapping):
        raise errors.make("invalid_argument", f"the state is of type {type(state).__name__}; allowed: {allowed}")
    for name in ("cursor", "layout"):
        if not isinstance(state.get(name), str):
            said = f"of type {type(state[name]).__name__}" if name in state else "missing"
            raise errors.make("invalid_argument", f"{name} of the state is {said}; allowed: {allowed}")
    try:
        return bytes.fromhex(state["cursor"])
    except ValueError:
        # The value, which is as secret as the checkpoint, is not shown.
        text = f"cursor of the state has characters other than hexadecimal digits; allowed: {allowed}"
        raise errors.make("invalid_argument", text) from None


def check_groups(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Refuses a state that PyTorch would refuse once the job was resumed, which may have opened a branch."""
    saved = [len(group["params"]) for group in state.get("param_groups", ())]
    here = [len(group["params"]) for group in optimizer.param_groups]
    if saved != here:
        text = f"the state has groups of {saved} parameters; allowed: {here}, as the optimizer has"
        raise errors.make("layout", text)
