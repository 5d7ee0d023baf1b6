"""An optimizer with noise, as one object in the place of an optimizer and an attachment."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .._session import Session
from . import _owners
from ._attach import attach
from ._attachment import Attachment
from ._noise import Named, Noise


class Optimizer(torch.optim.Optimizer):
    """A PyTorch optimizer whose steps add a session's noise first: :func:`attach` as a wrapper.

    The wrapped optimizer has the noise too, so that neither steps without it. Schedulers, ``GradScaler`` and
    checkpoints take the wrapper for the optimizer that it wraps.

    Args:
        optimizer: Any PyTorch optimizer of all parameters that have noise.
        session: The job's session.
        model: A module, or names with parameters.
        arguments: Those of :func:`attach`.

    Example::

        optimizer = rustle.torch.Optimizer(torch.optim.Adam(model.parameters()), session, model, divide_by=256)
    """

    #: ``GradScaler`` unscales before the step: a fused optimizer would do so in its step, after noise was added.
    _step_supports_amp_scaling = False

    def __init__(self, optimizer: torch.optim.Optimizer, session: Session, model: Named, **arguments: Any):
        # Not super().__init__: parameters and state are those of the wrapped optimizer.
        self.original_optimizer = optimizer
        self.attachment: Attachment = attach(optimizer, session, model, **arguments)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Adds noise to the gradients, those of ``closure`` where there is one, and steps."""
        return self.original_optimizer.step() if closure is None else self.original_optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients, as before every batch."""
        self.original_optimizer.zero_grad(set_to_none)

    def skip(self) -> None:
        """Leaves the next step out, with its row: :meth:`Attachment.skip`."""
        self.attachment.skip()

    @property
    def next_step(self) -> int:
        """The row that the next step uses."""
        return self.attachment.next_step

    @property
    def noise(self) -> Noise:
        """The noise of the steps."""
        return self.attachment.noise

    def state_dict(self) -> dict[str, Any]:
        """Returns the wrapped optimizer's state, with the job's cursor."""
        return self.original_optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues at a state, which resumes the job."""
        self.original_optimizer.load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, which may have no gradients: the plan does not hold them."""
        self.original_optimizer.add_param_group(param_group)

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The wrapped optimizer's groups."""
        return self.original_optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The wrapped optimizer's state."""
        return self.original_optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The wrapped optimizer's defaults."""
        return self.original_optimizer.defaults

    def __getattr__(self, name: str) -> Any:
        if name == "original_optimizer":
            raise AttributeError(name)
        return getattr(self.original_optimizer, name)

    def __getstate__(self) -> Any:
        return _owners.refuse_copy()

    def __repr__(self) -> str:
        return f"Noised {self.original_optimizer!r}"
