"""Which optimizers noise is attached to, and wrappers of frameworks around them."""

from __future__ import annotations

from typing import Any

import torch

from .. import _arguments, errors

# Of each framework's wrapper: the module that its class is of, and what to do.
_WRAPPERS = {
    "accelerate": "attach noise to the optimizer before Accelerator.prepare",
    "lightning": "attach noise in configure_optimizers, or to the wrapper's .optimizer",
    "pytorch_lightning": "attach noise in configure_optimizers, or to the wrapper's .optimizer",
    "keras": "rustle.jax within a training loop of your own, or a torch.optim optimizer of the model's variables",
}


def check_plain(optimizer: Any) -> None:
    """Refuses what is no optimizer of PyTorch, and a framework's wrapper around one, which hides its steps."""
    kind = type(optimizer)
    advice = _WRAPPERS.get(kind.__module__.split(".")[0])
    if isinstance(optimizer, torch.optim.Optimizer) and advice is None:
        return
    allowed = advice or "a torch.optim.Optimizer"
    raise errors.make("invalid_argument", f"optimizer is {kind.__module__}.{kind.__qualname__}; allowed: {allowed}")


def check_named(model: Any) -> None:
    """Refuses what is no module and no list of names with parameters, such as ``model.parameters()``."""
    if isinstance(model, torch.nn.Module):
        return
    allowed = "a torch.nn.Module, or names with parameters such as list(model.named_parameters())"
    # Generators can't be looked into; that of model.parameters() has its name.
    pairs = isinstance(model, (list, tuple)) or hasattr(model, "__next__") and getattr(model, "__name__", "") != "parameters"
    if not pairs or (isinstance(model, (list, tuple)) and not all(_is_named(one) for one in model)):
        raise _arguments.refused("model", model, allowed)


def _is_named(pair: Any) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
