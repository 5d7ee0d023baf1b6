"""PyTorch: noise added to gradients just before an optimizer steps.

::

    attachment = rustle.torch.attach(optimizer, session, model, divide_by=batch_size)

Gradients must be clipped sums of contributions (or such sums divided by ``divide_by``) when ``optimizer.step()`` is
called: clipping is the caller's, or Opacus's (:mod:`rustle.opacus`).
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from . import errors
from ._batches import Batches
from ._commitment import Commitment
from ._layout import Layout, Piece, Row, declared, share, skipped, spans
from ._session import Session

Named = torch.nn.Module | Iterable[tuple[str, torch.nn.Parameter]]

_WRAPPERS = ("module.", "_module.", "_orig_mod.", "_fsdp_wrapped_module.")

KEY = "rustle"


class Noise:
    """One session's noise for the gradients of named parameters. :func:`attach` and the Opacus engine have one each."""

    def __init__(
        self,
        session: Session,
        named: Named,
        *,
        commitment: Literal["declared", "exact"],
        group: Any,
        reduce: bool,
    ):
        if commitment not in ("declared", "exact"):
            raise errors.make("invalid_argument", f"commitment is {commitment!r}; allowed: declared, exact")
        pairs = named.named_parameters() if isinstance(named, torch.nn.Module) else named
        self._named = [(_plain(name), p) for name, p in pairs]
        self.parameters = {name: p for name, p in self._named if p.requires_grad}
        self.session, self.commitment = session, commitment
        self.layout = Layout.of([(name, tuple(p.shape)) for name, p in self.parameters.items()], session)
        self.parameters = {name: self.parameters[name] for name in self.layout.parameters}
        self.pieces = {name: _piece(self.layout, name, p) for name, p in self.parameters.items()}
        self.sharded = any(_is_sharded(p) for p in self.parameters.values())
        if reduce and self.sharded:
            text = (
                "reduce=True with sharded parameters; allowed: reduce=False, as FSDP reduces gradients itself"
            )
            raise errors.make("invalid_argument", text)
        self.group, self.reduce = group, reduce
        self.ranks = dist.get_world_size(group) if _is_distributed() else 1
        self.rank = dist.get_rank(group) if _is_distributed() else 0
        wanted = [share(session.dimension, self.rank, self.ranks)] if reduce else self._places()
        self.wanted = spans(wanted)
        session.claim(self)
        self._agree()

    def _places(self) -> list[tuple[int, int]]:
        return [(piece.start, piece.end) for piece in self.pieces.values()]

    def _agree(self) -> None:
        """All ranks bind rows as rank 0 does."""
        if self.ranks > 1:
            place = [self.session.share()]
            source = dist.get_global_rank(self.group, 0) if self.group is not None else 0
            dist.broadcast_object_list(place, src=source, group=self.group)
            if self.rank:
                self.session.join(place[0])
        self.branch, self.step, self._nonce = self.session.share()

    def row(self, sums: dict[str, torch.Tensor], divide_by: float) -> Row:
        """The next step's noise for these local sums: bound, and fetched whole. Nothing is added yet."""
        step, commitment = self._next(sums, divide_by)
        row = Row(self.session, step, self.wanted, commitment)
        self._went_on()
        return row

    def check(self, optimizer: torch.optim.Optimizer, noised: Iterable[torch.Tensor]) -> None:
        """Refuses a step that would move parameters without noise: some may have been unfrozen, added or given a
        gradient since noise was attached."""
        ours = {id(p) for p in noised}
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if p.grad is not None and id(p) not in ours:
                name = next((repr(name) for name, q in self._named if q is p), f"of shape {tuple(p.shape)}")
                text = (
                    f"parameter {name} has a gradient and no noise; allowed: gradients of those that were trainable "
                    "when noise was attached. Set its .grad to None, or train it under a plan that holds it"
                )
                raise errors.make("layout", text)

    def skip(self) -> None:
        """Binds the next step's row and throws it away."""
        step = self._place()
        # One ahead, some of the row was given out already: it goes with this step.
        if self.session.next_step == step:
            exact = self.commitment == "exact"
            Row(self.session, step, self.wanted, skipped(step) if exact else declared(self._nonce, step))
        self._went_on()

    def _went_on(self) -> None:
        self.step += 1
        if not self.wanted:
            # No fetch took the session along.
            self.session.join((self.branch, self.step, self._nonce))

    def _next(self, sums: dict[str, torch.Tensor], divide_by: float) -> tuple[int, Commitment]:
        """The next step, and what its row is bound to."""
        self._check_finite(sums)
        step = self._place()
        # A step whose fetch of several stretches failed half way comes again under the same commitment: none of it was
        # added.
        if self.commitment == "exact":
            return step, self._exact(sums, divide_by)
        return step, declared(self._nonce, step)

    def _check_finite(self, sums: dict[str, torch.Tensor]) -> None:
        """On all ranks together, where each has its own part: else the others would go on to wait for one that raised."""
        bad = next((f"of {name!r}" for name, value in sums.items() if not torch.isfinite(value).all()), None)
        if self.ranks > 1 and (self.reduce or self.sharded):
            device = next(iter(self.parameters.values())).device
            found = torch.tensor(float(bad is not None), device=device)
            dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self.group)
            bad = bad or ("of another rank" if found else None)
        if bad:
            text = f"the gradient {bad} is not finite; attachment.skip() leaves this step out, with its row"
            raise errors.make("invalid_argument", text)

    def _place(self) -> int:
        """The next step, where the session is there too."""
        if self.session.branch != self.branch and self.ranks == 1:
            self._agree()
        if self.session.closed:
            raise errors.make("closed", "the session is closed; detach, connect anew and attach")
        if self.session.next_step not in (self.step, self.step + 1):
            text = f"the session is at step {self.session.next_step}, this trainer at {self.step}: another one uses it"
            raise errors.make("step", text)
        return self.step

    def add_all(self, sums: dict[str, torch.Tensor], divide_by: float) -> bool:
        """Adds the next step's noise to all local sums; False where they are not such that noise can be added in
        place, and nothing was done."""
        arrays = None if self.reduce or self.sharded or len(self.wanted) != 1 else _in_place(sums)
        if arrays is None:
            return False
        step, commitment = self._next(sums, divide_by)
        if self.session.next_step != step:
            text = (
                f"the noise of step {step} was given out, and the call that added it was interrupted: gradients may "
                "hold it already; leave the batch out with attachment.skip(), go back to a checkpoint, or call "
                "session.restart"
            )
            raise errors.make("step", text)
        pieces = [(self.pieces[name].start, array) for name, array in arrays.items()]
        self.session.add_to(pieces, step, self.wanted[0], commitment, divide_by)
        self._went_on()
        return True

    def announce(self, steps: int = 1) -> None:
        """Has the next steps' rows bound and fetched in the background."""
        if self.commitment == "exact":
            text = "commitment is 'exact', which the sums decide; allowed: 'declared' where steps are announced"
            raise errors.make("invalid_argument", text)
        if self.session.branch != self.branch and self.ranks == 1:
            self._agree()
        # Where the session is elsewhere, the step itself says so.
        goes_on = self.session.next_step == self.step < self.session.iterations and not self.session.closed
        # A row in several stretches is fetched by several calls, of which the first waits longest: it binds. More rows
        # of that stretch alone, or of one rank, would have workers go back for the others.
        if len(self.wanted) != 1 or self.ranks > 1:
            steps = 1
        if self.wanted and goes_on:
            of = lambda step: declared(self._nonce, step)
            self.session.announce(self.wanted[0], steps=steps, commitment=of)

    def _exact(self, sums: dict[str, torch.Tensor], divide_by: float) -> Commitment:
        arrays = [_bytes(value) for value in sums.values()]
        mine = Commitment.exact(*arrays, divide_by=divide_by) if arrays else Commitment.declared("nothing")
        if self.ranks == 1 or not (self.reduce or self.sharded):
            return mine
        parts: list[bytes] = [b""] * self.ranks
        dist.all_gather_object(parts, mine.data, group=self.group)
        return Commitment.together(parts)

    def add(self, row: Row, sums: dict[str, torch.Tensor], divide_by: float) -> None:
        """Adds the row to its sums, in place: in float32, then rounded to a sum's own type."""
        # All of it is ready before the first sum changes: a failure here leaves none with noise and others without.
        noise = {name: self._noise_of(row, name) for name in sums}
        for name, value in sums.items():
            if not self.reduce:
                _add(value, noise[name][0][1], divide_by)
                continue
            flat = value.reshape(-1)
            for first, values in noise[name]:
                _add(flat[first : first + len(values)], values, divide_by)
            if flat.data_ptr() != value.data_ptr():
                value.copy_(flat.view_as(value))

    def _noise_of(self, row: Row, name: str) -> list[tuple[int, torch.Tensor]]:
        """The row's part of a parameter, in its shape; where ranks share rows flat, as first places with values."""
        piece = self.pieces[name]
        if not self.reduce:
            # numpy makes () into (1,) here.
            values = np.ascontiguousarray(row.piece(piece)).reshape(piece.shape)
            return [(0, torch.from_numpy(values))]
        found = row.within(piece.start, piece.end)
        return [(first - piece.start, torch.from_numpy(values)) for first, values in found]

    def state_dict(self) -> dict[str, Any]:
        """The job's place, some hundred bytes. Reads only."""
        cursor = self.session.cursor(self.step)
        return {"cursor": cursor.hex(), "layout": self.layout.digest, "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on at a place. On all ranks together: rank 0 resumes, the others follow."""
        if state["layout"] != self.layout.digest:
            text = "parameters have other names or shapes than when the state was saved; resume with the same model"
            raise errors.make("layout", text)
        failed: list[Any] = [None]
        if self.rank == 0:
            try:
                self.session.resume(bytes.fromhex(state["cursor"]), replay=self.commitment == "exact")
            except errors.RustleError as error:
                failed = [(error.kind, str(error))]
                if self.ranks == 1:
                    raise
        if self.ranks > 1:
            source = dist.get_global_rank(self.group, 0) if self.group is not None else 0
            dist.broadcast_object_list(failed, src=source, group=self.group)
            if failed[0]:
                raise errors.make(*failed[0])
        self._agree()


class Attachment:
    """Made by :func:`attach`; :meth:`detach` ends it. Has ``state_dict`` and ``load_state_dict`` for checkpoints."""

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
                "invalid_argument", "step(closure) makes gradients after the noise; call step() alone"
            )
        if getattr(optimizer, "grad_scale", None) is not None:
            raise errors.make(
                "invalid_argument", "gradients are scaled; call scaler.unscale_(optimizer) before the step"
            )
        # A parameter that got no gradient has a sum of zero, and that is as private as any other.
        grads = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in parameters.items()}
        local = {name: _local(grad) for name, grad in grads.items()}
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
            text = "the optimizer's state has no cursor, and the job has released rows; session.restart() goes on without"
            raise errors.make("not_resumed", text)
        return state

    def state_dict(self) -> dict[str, Any]:
        return self.noise.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.noise.load_state_dict(state)

    def announce(self, steps: int = 1) -> None:
        """To be called before the gradients of a step are computed: its noise is bound and fetched meanwhile, and that of
        further steps, so that up to ``steps`` are at any time. With several ranks, or parameters whose coordinates do
        not follow each other, it is that of this step alone.

        See :meth:`rustle.Session.announce` for what that costs a job that ends before those steps.
        """
        self.noise.announce(steps)

    @property
    def next_step(self) -> int:
        """The row that the next ``optimizer.step()`` takes."""
        return self.noise.session.next_step

    def skip(self) -> None:
        """Leaves a step out: its row is bound and thrown away, and counts as released.

        For a batch that is not stepped with, such as one whose gradients overflowed. Without it the batches that follow
        would each take the row before their own, and records come back sooner than the plan's ``min_sep``. On all ranks
        together.
        """
        self.noise.skip()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Steps in here get no noise and count as none: for tools that step with zero gradients to make state."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def detach(self) -> None:
        """The optimizer steps without noise from now on, and the session is free for another."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.noise.session.release(self.noise)


def attach(
    optimizer: torch.optim.Optimizer,
    session: Session,
    model: Named,
    *,
    divide_by: float = 1.0,
    commitment: Literal["declared", "exact"] = "declared",
    process_group: Any = None,
    reduce: bool = False,
) -> Attachment:
    """Adds the session's noise to the gradients before each ``optimizer.step()``.

    ``model``: a module, or names with parameters; all that require gradients have noise. ``divide_by``: what the
    clipped sum was divided by before the step. ``commitment``: ``"exact"`` lets a job that crashed come again to the
    same sums with the same noise; that needs deterministic training.

    With several ranks each has a session of its own on one job. ``reduce=True``: gradients are each rank's own sums;
    each adds its part of the noise, then all are summed over ``process_group`` here (do not wrap the model in
    DistributedDataParallel). ``reduce=False``: gradients are summed already. FSDP2's DTensors get the noise of their
    own shard alone.

    A failed step raises before anything is changed, and so does one that would move a parameter without noise. One
    that is interrupted (Ctrl-C) may have added its noise, and the next then says so. A batch that is not stepped with
    is left out by :meth:`Attachment.skip`. The optimizer's ``state_dict`` carries the cursor.
    """
    noise = Noise(session, model, commitment=commitment, group=process_group, reduce=reduce)
    return Attachment(optimizer, noise, divide_by)


class BatchSampler(Sampler[list[int]]):
    """The rounds of :class:`rustle.Batches` from ``start`` on, for ``DataLoader(batch_sampler=…)``.

    ``start``: a round, or what gives one whenever a loader begins: with ``lambda: session.next_step`` each batch meets
    its own row, after a resume or a loop that was broken off too. A round's batch is the same wherever one begins.
    ``rank``, ``ranks``: that share of each batch, for ranks that sum their gradients; all need the same seed.
    """

    def __init__(
        self, batches: Batches, start: int | Callable[[], int] = 0, *, rank: int = 0, ranks: int = 1
    ):
        if not 0 <= rank < ranks:
            raise errors.make("invalid_argument", f"rank is {rank}; allowed: 0 to {ranks - 1}")
        self.batches, self.start = batches, start
        self.rank, self.ranks = rank, ranks

    def __iter__(self) -> Iterator[list[int]]:
        for ids in self.batches.rounds(self._first()):
            yield ids[self.rank :: self.ranks].tolist()

    def __len__(self) -> int:
        return len(self.batches) - self._first()

    def _first(self) -> int:
        return self.start() if callable(self.start) else self.start


def layout(model: Named) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of what has noise: the ``parameters`` of :func:`rustle.plan`."""
    pairs = model.named_parameters() if isinstance(model, torch.nn.Module) else model
    return [(_plain(name), tuple(p.shape)) for name, p in pairs if p.requires_grad]


def _plain(name: str) -> str:
    """Without what wrappers put before it."""
    while True:
        for wrapper in _WRAPPERS:
            if name.startswith(wrapper):
                name = name[len(wrapper) :]
                break
        else:
            return name.replace("._orig_mod.", ".")


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def _is_sharded(parameter: torch.Tensor) -> bool:
    return hasattr(parameter, "to_local") and hasattr(parameter, "placements")


def _local(value: Any) -> torch.Tensor:
    return value.to_local() if _is_sharded(value) else value


def _piece(layout: Layout, name: str, parameter: Any) -> Piece:
    if not _is_sharded(parameter):
        return Piece.of(layout.parameters[name])
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, offset = compute_local_shape_and_global_offset(
        parameter.shape, parameter.device_mesh, parameter.placements
    )
    return Piece.of(layout.parameters[name], tuple(slice(o, o + n) for o, n in zip(offset, shape)))


def _add(value: torch.Tensor, noise: torch.Tensor, divide_by: float) -> None:
    noise = noise.to(value.device) if divide_by == 1.0 else noise.to(value.device) / divide_by
    if value.dtype == torch.float32:
        value.add_(noise)
    else:
        value.copy_(value.float().add_(noise))


def _in_place(sums: dict[str, torch.Tensor]) -> dict[str, np.ndarray] | None:
    """The same memory, flat, where all of it is float32 in C order on the CPU and nothing shares it."""
    fits = all(
        value.dtype == torch.float32 and value.device.type == "cpu" and value.is_contiguous()
        for value in sums.values()
    )
    apart = len({value.data_ptr() for value in sums.values()}) == len(sums)
    return {name: value.detach().reshape(-1).numpy() for name, value in sums.items()} if fits and apart else None


def _bytes(value: torch.Tensor) -> np.ndarray:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
