"""Noise attached to an optimizer's steps."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Iterator

import torch
import torch.distributed as dist

from .. import _arguments, errors
from .._deprecated import warn_renamed
from . import _closures, _owners, _tensors
from ._batch_norms import BufferWatch, check_no_running_means
from ._gradients import GradientWatch, is_made, is_zero, records_of
from ._means import MeanWatch
from ._movement import MovementWatch
from ._nesting import is_nested
from ._noise import Noise
from ._state import check_groups

KEY = "rustle"


class Attachment:
    """Noise attached to an optimizer by :func:`attach`, until :meth:`detach`.

    ``state_dict`` and ``load_state_dict`` save and restore the job's position; the optimizer's own call them.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        noise: Noise,
        divide_by: float,
        *,
        records: float | None = None,
        watch_gradients: bool = True,
    ):
        self.noise, self.divide_by, self.records = noise, float(divide_by), records
        self._optimizer = optimizer
        self._check_optimizer(optimizer)
        self._paused, self._warned = False, False
        self._gradients = GradientWatch(noise.parameters) if watch_gradients else None
        self._movement = MovementWatch(noise.parameters)
        self._means = MeanWatch(self.divide_by)
        self._buffers = BufferWatch(noise.model)
        self._handles = [
            optimizer.register_state_dict_post_hook(self._save),
            optimizer.register_load_state_dict_pre_hook(self._load),
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        ]
        _owners.own(optimizer, noise.parameters.values())
        noise.session.on_move.append(self._follow)
        self._watch_rounds()

    @staticmethod
    def check_arguments(divide_by: float, records: float | None) -> None:
        """Refuses numbers that no attachment takes, before noise claims the session."""
        _arguments.above_zero("divide_by", divide_by)
        if records is not None:
            _arguments.above_zero("records", records)

    def _check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if _owners.is_attached(optimizer):
            self.noise.session.release(self.noise)
            text = (
                f"the {type(optimizer).__name__} has noise already; allowed: one attachment to an optimizer. Call detach() of the "
                "other one first, whose session may be closed"
            )
            raise errors.make("busy", text)
        ours = {id(p): name for name, p in self.noise.parameters.items()}
        theirs = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
        left = [name for key, name in ours.items() if key not in theirs]
        text = None
        if theirs - ours.keys():
            text = "the optimizer steps parameters that the model does not name"
        elif left:
            text = (
                f"the optimizer does not hold parameter {left[0]!r}, which would move without noise or not at all; "
                "allowed: an optimizer of all parameters that have noise. Freeze those that are not trained, or name "
                "those of this optimizer in the place of the model"
            )
        if text:
            self.noise.session.release(self.noise)
            raise errors.make("layout", text)

    @torch.no_grad()
    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._paused:
            return self._before_paused(optimizer, args, kwargs)
        if is_nested(optimizer):
            # The step that called this one has added the noise.
            if self._gradients is not None:
                self._gradients.check_none_added()
            return None
        self._check_rounds()
        self.check_model()
        replaced = _closures.run_first(optimizer, args, kwargs)
        parameters = self.noise.parameters
        self.noise.check(optimizer, parameters.values())
        if self._gradients is not None:
            self._gradients.check()
            rounds = self.noise.session.rounds
            records = rounds.records_here(self.noise.step) if rounds is not None else self.records
            self._gradients.check_made(records, self.noise.session.clip_norm_at(self.noise.step), self.divide_by)
        if getattr(optimizer, "grad_scale", None) is not None:
            raise errors.make(
                "invalid_argument", "gradients are scaled; call scaler.unscale_(optimizer) before the step"
            )
        # A parameter without a gradient has a sum of zero, which must be as private as any other sum.
        grads = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in parameters.items()}
        local = {name: _tensors.local_part(grad) for name, grad in grads.items()}
        self.noise.records = self.records
        if self.records is None and self.noise.ranks == 1:
            # Of several ranks each knows its own alone.
            self.noise.records = records_of(p.grad for p in parameters.values())
        self.noise.made_here = {name for name, p in parameters.items() if p.grad is None or is_made(p.grad)}
        if not self.noise.add_all(local, self.divide_by):
            self.noise.add(self.noise.row(local, self.divide_by), local, self.divide_by)
        self._means.see(*self.noise.seen, self.noise.session.clip_norm_at(self.noise.step - 1))
        for name, parameter in parameters.items():
            parameter.grad = grads[name]
        # On a grid integers were added up already.
        if self.noise.reduce and self.noise.ranks > 1 and not self.noise.session.is_on_grid:
            for value in local.values():
                dist.all_reduce(value, group=self.noise.group)
        self._note_step()
        self._movement.begin(optimizer)
        return replaced

    def check_model(self) -> None:
        """Refuses layers that keep means without noise, and warns of buffers that may be such."""
        if self.noise.model is not None:
            check_no_running_means(self.noise.model)
            self._buffers.see()

    def _before_paused(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Refuses a step without noise whose gradients say anything."""
        replaced = _closures.run_first(optimizer, args, kwargs)
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            if not is_zero(parameter.grad):
                text = (
                    f"the gradient of parameter {self.noise.name_of(parameter)} is not zero in a step within paused(), which has "
                    "no noise; allowed: steps with gradients that are zero or None. Call optimizer.zero_grad() first"
                )
                raise errors.make("stale_gradients", text)
        return replaced

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._paused and not is_nested(optimizer):
            self._note_step()
            self._movement.end()

    def _note_step(self) -> None:
        if self._gradients is not None:
            self._gradients.note_step()

    def _check_rounds(self) -> None:
        """Before the first step, refuses ranks that do not share out one batch, and warns where nothing checks participation."""
        rounds = self.noise.session.rounds
        if not self._warned:
            self.noise.check_ranks_draw_alike()
        is_first, self._warned = not self._warned, True
        if rounds is None and is_first:
            plan = self.noise.session.plan
            if plan.min_sep > 1 or plan.max_participations < plan.iterations:
                text = (
                    "nothing checks that the batches keep the plan's participation; draw them by "
                    "rustle.Rounds(batches, session), or load them by rustle.torch.DataLoader or rustle.torch.in_order"
                )
                warnings.warn(text, errors.Unchecked, stacklevel=5)
        self._watch_rounds()

    def _watch_rounds(self) -> None:
        rounds = self.noise.session.rounds
        if rounds is not None and self._gradients is not None:
            if self._gradients.check_none not in rounds.on_repeat:
                rounds.on_repeat.append(self._gradients.check_none)

    def _save(self, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        state[KEY] = self.state_dict()
        return state

    def _load(self, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        if KEY in state:
            check_groups(optimizer, state)
            self.load_state_dict(state[KEY])
            return {key: value for key, value in state.items() if key != KEY}
        if self.noise.session.next_step:
            text = "the optimizer's state has no cursor, and the job has released rows; session.restart() continues without one"
            raise errors.make("not_resumed", text)
        return state

    def state_dict(self) -> dict[str, Any]:
        """Returns the job's position, some hundred bytes. Changes nothing."""
        return self.noise.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at a position, and discards gradients that no step was taken with. Collective over all ranks."""
        self.noise.load_state_dict(state)
        self._discard()

    def _follow(self) -> None:
        """Continues where the session went to: gradients so far are of a batch that has its step elsewhere."""
        self.noise.follow()
        self._discard()

    def _discard(self) -> None:
        for parameter in self.noise.parameters.values():
            parameter.grad = None

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
        """Leaves a step out: its row is bound and discarded, which counts as released, and so are the gradients of its batch.

        Call it for a batch that no optimizer step follows, such as one whose gradients overflowed. Otherwise each later
        batch would use the row before its own, and records would return sooner than the plan's ``min_sep``. Collective
        over all ranks.
        """
        self.noise.skip()
        # The next backward pass would add to them: the sum of two batches, with the noise of one row.
        self._discard()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Steps without noise, which count as no step: for tools that create optimizer state by steps with zero gradients.

        A step within whose gradients are not all zero, or None, raises :class:`rustle.errors.StaleGradients`.
        """
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
        if self._gradients is not None:
            self._gradients.detach()
            rounds = self.noise.session.rounds
            if rounds is not None and self._gradients.check_none in rounds.on_repeat:
                rounds.on_repeat.remove(self._gradients.check_none)
        if self._follow in self.noise.session.on_move:
            self.noise.session.on_move.remove(self._follow)
        _owners.disown(self._optimizer, self.noise.parameters.values())
        self.noise.session.release(self.noise)
