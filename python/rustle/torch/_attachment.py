"""Noise attached to an optimizer's steps."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch
import torch.distributed as dist

from .. import errors
from .._deprecated import warn_renamed
from . import _tensors
from ._noise import Noise

KEY = "rustle"


class Attachment:
    """Noise attached to an optimizer by :func:`attach`, until :meth:`detach`.

    ``state_dict`` and ``load_state_dict`` save and restore the job's position; the optimizer's own call them.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, noise: Noise, divide_by: float, step_hook: bool = True
    ):
        if not divide_by > 0:
            raise errors.make("invalid_argument", f"divide_by is {divide_by}; allowed: above zero")
        self.noise, self.divide_by = noise, float(divide_by)
        self._check_optimizer(optimizer)
        self._paused = False
        self._handles = [
            optimizer.register_state_dict_post_hook(self._save),
            optimizer.register_load_state_dict_pre_hook(self._load),
        ]
        if step_hook:
            self._handles.append(optimizer.register_step_pre_hook(self._before_step))

    def _check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        ours = {id(p) for p in self.noise.parameters.values()}
        theirs = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
        if theirs - ours:
            self.noise.session.release(self.noise)
            raise errors.make("layout", "the optimizer steps parameters that the model does not name")

    @torch.no_grad()
    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self._paused:
            return
        parameters = self.noise.parameters
        self.noise.check(optimizer, parameters.values())
        if kwargs.get("closure") is not None or any(callable(argument) for argument in args):
            raise errors.make(
                "invalid_argument", "step(closure) computes gradients after the noise was added; call step() alone"
            )
        if getattr(optimizer, "grad_scale", None) is not None:
            raise errors.make(
                "invalid_argument", "gradients are scaled; call scaler.unscale_(optimizer) before the step"
            )
        # A parameter without a gradient has a sum of zero, which must be as private as any other sum.
        grads = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in parameters.items()}
        local = {name: _tensors.local_part(grad) for name, grad in grads.items()}
        if not self.noise.add_all(local, self.divide_by):
            self.noise.add(self.noise.row(local, self.divide_by), local, self.divide_by)
        for name, parameter in parameters.items():
            parameter.grad = grads[name]
        if self.noise.reduce and self.noise.ranks > 1:
            for value in local.values():
                dist.all_reduce(value, group=self.noise.group)

    def _save(self, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        state[KEY] = self.state_dict()
        return state

    def _load(self, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        if KEY in state:
            self.load_state_dict(state[KEY])
            return {key: value for key, value in state.items() if key != KEY}
        if self.noise.session.next_step:
            text = "the optimizer's state has no cursor, and the job has released rows; session.restart() continues without one"
            raise errors.make("not_resumed", text)
        return state

    def state_dict(self) -> dict[str, Any]:
        return self.noise.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.noise.load_state_dict(state)

    def reserve(self, steps: int = 1) -> None:
        """Binds and fetches the rows of the next steps in the background, while their gradients are computed.

        Call it before the gradients of each step. At most ``steps`` rows are reserved at any time; with several ranks,
        or parameters whose coordinates are not consecutive, only the next one. Reserved rows count as released: see
        :meth:`rustle.Session.reserve`.
        """
        self.noise.reserve(steps)

    def announce(self, steps: int = 1) -> None:
        """Deprecated name of :meth:`reserve`."""
        warn_renamed("Attachment.announce", "Attachment.reserve")
        self.reserve(steps)

    @property
    def next_step(self) -> int:
        """The row that the next ``optimizer.step()`` uses."""
        return self.noise.session.next_step

    def skip(self) -> None:
        """Leaves a step out: its row is bound and discarded, and counts as released.

        Call it for a batch that no optimizer step follows, such as one whose gradients overflowed. Otherwise each later
        batch would use the row before its own, and records would return sooner than the plan's ``min_sep``. Collective
        over all ranks.
        """
        self.noise.skip()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Steps without noise, which count as no step: for tools that create optimizer state by steps with zero gradients."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def detach(self) -> None:
        """Removes the noise from the optimizer's steps and frees the session for another trainer."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.noise.session.release(self.noise)
