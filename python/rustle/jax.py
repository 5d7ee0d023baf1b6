"""JAX: a privatizer in the shape of optax's and jax_privacy's.

::

    privatizer = rustle.jax.privatizer(session)
    state = privatizer.init(params)
    noisy, state = privatizer.update(sum_of_clipped_grads, state)

``state`` is the number of the next step, an int32: training checkpoints hold it, and the session's cursor beside it.
Reading the session (``cursor``, ``next_step``, ``report``) waits for jitted steps that were started before.
Outside of ``jit`` each host fetches the noise of the shards that it addresses. Within ``jit`` the sums go through the
host (``io_callback``), which is right for one device alone.

With several processes (``jax.distributed``) each has a session of its own on one job, and process 0 says how rows are
bound: it alone resumes, then all of them make the privatizer together.
"""

from __future__ import annotations

import math
import warnings
import weakref
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import io_callback

from . import _arguments, errors
from ._clip_schedule import is_traced
from ._commitment import Commitment
from ._jax_accumulation import AccumulationState, accumulated, note_initialised
from ._jax_norm import norm_of
from ._jax_precision import ProductCheck
from ._jax_processes import agree, agree_on_batches, together
from ._jax_scaling import Scaling, ScalingState
from ._kappa import KappaCheck
from ._layout import Layout, Piece, Row, declared, skipped, spans
from ._ranks import check_kept
from ._session import Session, check_session
from ._sum_bound import check_norm
from .grid import added, check_addable

__all__ = [
    "AccumulationState",
    "Scaling",
    "ScalingState",
    "accumulated",
    "layout",
    "noise",
    "privatizer",
    "skip",
]

# Sessions that bind rows as process 0's does.
_agreed: weakref.WeakSet[Session] = weakref.WeakSet()


def privatizer(
    session: Session,
    *,
    commitment: Literal["declared", "exact"] = "declared",
    divide_by: float = 1.0,
    records: float | None = None,
) -> optax.GradientTransformation:
    """Adds the session's noise to sums of clipped gradients: z = x + y, each y used once.

    Args:
        session: The session of the job.
        commitment: As in :func:`rustle.torch.attach`.
        divide_by: The number that the sums were divided by before.
        records: The most contributions that a step's sum holds, by default as many as the batch of the session's
            :class:`rustle.Rounds`. Sums beyond ``records`` times the plan's clip norm are refused.

    Output has the sums' shapes, types and shardings. Where the session has :class:`rustle.Rounds`, a step with any batch
    but that of its round is refused; without them a warning says that nothing checks participation. For sums of several
    micro-batches see :func:`accumulated`. Under a plan on a grid ``update`` refuses a ``jax_default_matmul_precision`` of fewer
    bits than float32, and warns where the device's default may have fewer.
    """
    trainer = _Trainer(session, commitment, divide_by, records)
    return optax.GradientTransformation(trainer.init, trainer.update)


def noise(session: Session, step: int, like: Any, *, commitment: Commitment | None = None) -> Any:
    """The noise of ``step`` in the shape of a tree, float32: an argument for a jitted step.

    ``like``: arrays, or shapes with shardings (``jax.ShapeDtypeStruct``).
    """
    if session not in _agreed:
        agree(session)
        _agreed.add(session)
    return _Fetch(session, like).arrays(step, commitment)


def skip(session: Session, noise_state: Any) -> Any:
    """Leaves a step of the session's privatizer out, and returns the state of the next one. Outside of ``jit``.

    Args:
        session: The session of the privatizer.
        noise_state: The privatizer's state, or that of :func:`accumulated` around it, or around a chain that it is
            first in: the sums of the micro-batches so far are left out then too.

    The step's row is bound and thrown away, and counts as released. For a batch that is not stepped with, such as one
    whose sums overflowed: else the batches that follow would each take the row before their own, and records come back
    sooner than the plan's ``min_sep``. In all processes together.
    """
    trainer = session._owner
    if not isinstance(trainer, _Trainer):
        raise errors.make(
            "invalid_argument", "the session has no privatizer; allowed: one that privatizer() was given"
        )
    if not isinstance(noise_state, AccumulationState):
        return trainer.skip(noise_state)
    inner, zeros = noise_state.inner, jax.tree.map(jnp.zeros_like, noise_state.sums)
    chained = type(inner) is tuple
    first = trainer.skip(inner[0] if chained else inner)
    return AccumulationState(jnp.zeros((), jnp.int32), zeros, (first, *inner[1:]) if chained else first)


def layout(params: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes in the tree's order: the ``parameters`` of :func:`rustle.plan`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    for path, leaf in leaves:
        if not hasattr(leaf, "shape"):
            raise _arguments.refused(f"params{jax.tree_util.keystr(path)}", leaf, "an array")
        dtype = getattr(leaf, "dtype", jnp.float32)
        _arguments.real(f"params{jax.tree_util.keystr(path)}", dtype, jnp.issubdtype(dtype, jnp.floating))
    # A tree that is one array has a path without parts.
    return [(jax.tree_util.keystr(path) or "params", tuple(leaf.shape)) for path, leaf in leaves]


_NOT_FINITE = "a sum of clipped gradients is not finite; rustle.jax.skip leaves this step out, with its row"


class _Trainer:
    def __init__(self, session: Session, commitment: str, divide_by: float, records: float | None):
        if commitment not in ("declared", "exact"):
            raise errors.make("invalid_argument", f"commitment is {commitment!r}; allowed: declared, exact")
        check_session(session)
        divide_by = _arguments.above_zero("divide_by", divide_by)
        if records is not None:
            records = _arguments.above_zero("records", records)
        self.session, self.commitment, self.divide_by = session, commitment, divide_by
        self.records, self._plan = records, session.plan
        self._kappa, self._products = KappaCheck(session), ProductCheck()
        if jax.process_count() > 1:
            session.refuse_clip_schedule("several processes")
        session.claim(self)
        try:
            agree(session)
        except BaseException:
            session.release(self)
            raise
        _agreed.add(session)
        # Jitted steps run later than the calls that start them.
        session.settle = jax.effects_barrier
        self._branch, self._done = session.branch, -1
        #: Where the parameters lie that init or the first step was given.
        self._placed: Layout | None = None
        # What this process draws, once processes were compared at the first step: rounds may come after the privatizer.
        self._compared, self._drawn = False, None

    def init(self, params: Any) -> jax.Array:
        note_initialised(self.session)
        self._placed = Layout.of(layout(params), self.session)
        plan = self._plan
        if self.session.rounds is None and (plan.min_sep > 1 or plan.max_participations < plan.iterations):
            text = "nothing checks that the batches keep the plan's participation; draw them by rustle.Rounds(batches, session)"
            warnings.warn(text, errors.Unchecked, stacklevel=2)
        return jnp.asarray(self.session.next_step, jnp.int32)

    def update(
        self, sum_of_clipped_grads: Any, noise_state: jax.Array, params: Any = None
    ) -> tuple[Any, jax.Array]:
        noise_state = _number(noise_state)
        self._check_layout(sum_of_clipped_grads)
        leaves = jax.tree.leaves(sum_of_clipped_grads)
        if self.session.is_on_grid:
            # Here and not in the callback, whose thread has no settings of the program's.
            self._products.check()
        # Also for values that a function which is traced has from outside: its step may not run, as in lax.cond.
        if is_traced() or any(isinstance(leaf, jax.core.Tracer) for leaf in [*leaves, noise_state]):
            shapes = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), sum_of_clipped_grads
            )
            noise_state = jnp.asarray(noise_state)
            next_state = jax.ShapeDtypeStruct((), noise_state.dtype)
            # The state comes from the callback too: who waits for it waits for the row.
            return io_callback(
                self._on_host, (shapes, next_state), noise_state, sum_of_clipped_grads, ordered=True
            )
        noise = self._noise(int(noise_state), sum_of_clipped_grads)
        add = lambda x, y: (x.astype(jnp.float32) + y / self.divide_by).astype(x.dtype)
        if self.session.is_on_grid:
            # Of arrays on several devices, whole on this host; copies of a value are then those of one.
            place = lambda x, found: jnp.asarray(found) if _sharding(x) is None else jax.device_put(found, x.sharding)
            add = lambda x, y: place(x, self._added(np.asarray(x), np.asarray(y)))
        return jax.tree.map(add, sum_of_clipped_grads, noise), noise_state + 1

    def _on_host(self, step: Any, sums: Any) -> Any:
        # numpy alone: within a callback jax may wait for itself.
        sums = jax.tree.map(np.asarray, sums)
        noise = self._noise(int(step), sums)
        by = np.float32(self.divide_by)
        add = lambda x, y: (x.astype(np.float32) + y / by).astype(x.dtype)
        if self.session.is_on_grid:
            add = self._added
        return jax.tree.map(add, sums, noise), np.asarray(step + 1, np.asarray(step).dtype)

    def _check_layout(self, sums: Any) -> None:
        """Refuses another tree than the one before: its coordinates would have the noise of others. Also while it is traced."""
        placed = Layout.of(layout(sums), self.session)
        before, self._placed = self._placed or placed, self._placed or placed
        if placed.digest != before.digest:
            text = (
                f"the sums are {_shapes(placed)} now and were {_shapes(before)}; allowed: one tree in all steps, that of init. Train "
                "other parameters under a plan of their own"
            )
            raise errors.make("layout", text)

    def _added(self, sums: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return added(sums, noise, self._plan, self.divide_by)

    def _check_grid(self, leaves: list[Any]) -> None:
        """Refuses sums that this module can't round to the plan's grid."""
        check_addable(self._plan, "rustle.jax")
        for leaf in leaves:
            is_whole = getattr(leaf, "is_fully_addressable", True)
            if leaf.dtype != np.float32 or not is_whole:
                found = f"{leaf.dtype}, {'whole' if is_whole else 'over several processes, whose copies nothing compares'}"
                text = f"a sum is {found}; allowed under a plan on a grid: float32 on the devices of one process"
                raise errors.make("invalid_argument", text)

    def _noise(self, step: int, sums: Any) -> Any:
        leaves = jax.tree.leaves(sums)
        if self.session.is_on_grid:
            self._check_grid(leaves)
        self._check(step)
        if not self._compared:
            self._drawn = agree_on_batches(self.session)
            self._compared = True
        check_kept(self._drawn, self.session.rounds)
        self._check_sums(step, leaves)
        commitment = declared(self.session.share()[2], step)
        if self.commitment == "exact":
            commitment = together(
                self.session.exact(step, *[_own(leaf) for leaf in leaves], divide_by=self.divide_by)
            )
        noise = _Fetch(self.session, sums).arrays(step, commitment)
        self._done = step
        return noise

    def _check_sums(self, step: int, leaves: list[Any]) -> None:
        rounds, records = self.session.rounds, self.records
        if rounds is not None:
            whole = rounds.records(step)
            records = whole if records is None else min(records, whole)
        self._kappa.check(records)
        norm = norm_of(leaves)
        if not math.isfinite(norm):
            raise errors.make("invalid_argument", _NOT_FINITE)
        if records is not None:
            check_norm(norm, self.divide_by, records, self.session.clip_norm_at(step))

    def skip(self, noise_state: Any) -> jax.Array:
        step = int(_number(noise_state))
        self._check(step)
        # One step ahead means that part of the row was delivered already: it is discarded with this step.
        if self.session.next_step == step:
            self.session.excuse(step)
            commitment = (
                skipped(self.session, step)
                if self.commitment == "exact"
                else declared(self.session.share()[2], step)
            )
            # One coordinate binds the row as all do.
            self.session.fetch_into(step, self.session.row(1), (0, 1), commitment=commitment)
        self._done = step
        return jnp.asarray(step + 1, jnp.int32)

    def _check(self, step: int) -> None:
        # Not session.next_step, which waits for the very callback that may be running here.
        next_step = self.session._native.next_step
        if self.session.branch != self._branch and jax.process_count() > 1:
            text = (
                f"the session went from branch {self._branch} to {self.session.branch}, of which other processes do "
                "not know; allowed: to resume in process 0 before all of them make the privatizer"
            )
            raise errors.make("step", text)
        if self.session.branch != self._branch:
            self._branch, self._done = self.session.branch, next_step - 1
        if step <= self._done and step < next_step:
            text = (
                f"step {step} has been noised already; the next one is {next_step}. Several micro-batches have one row by "
                "rustle.jax.accumulated, in the place of optax.MultiSteps"
            )
            raise errors.make("step", text)
        # One less: a fetch that failed half way comes again under the same commitment, and nothing of it was added.
        if step not in (next_step, next_step - 1):
            text = f"the state is at step {step}, the session at {next_step}: resume the session's cursor"
            raise errors.make("step", text)


def _number(noise_state: Any) -> Any:
    """Returns a privatizer's state, and refuses another one, such as that of a chain around it."""
    if noise_state is None or isinstance(noise_state, (tuple, list, dict, str)) or np.ndim(noise_state) != 0:
        allowed = "the state that privatizer.init or update returned; of an optax.chain that begins with it, state[0]"
        raise _arguments.refused("noise_state", noise_state, allowed)
    return noise_state


def _shapes(placed: Layout) -> str:
    """Returns names with shapes, as far as they fit into a message."""
    named = [f"{one.name} {one.shape}" for one in placed.parameters.values()]
    return ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")


class _Fetch:
    """What this host needs of a row, for a tree of arrays."""

    def __init__(self, session: Session, like: Any):
        self.session, self.like = session, like
        self.layout = Layout.of(layout(like), session)
        leaves = jax.tree.leaves(like)
        self.leaves = list(zip(self.layout_in_tree_order(), leaves, strict=True))

    def layout_in_tree_order(self) -> list[Any]:
        return [self.layout.parameters[name] for name, _ in layout(self.like)]

    def arrays(self, step: int, commitment: Commitment | None) -> Any:
        pieces = [Piece.of(p, index) for p, leaf in self.leaves for index in _indices(leaf)]
        row = Row(self.session, step, spans((piece.start, piece.end) for piece in pieces), commitment)
        made = [_array(row, parameter, leaf) for parameter, leaf in self.leaves]
        return jax.tree.unflatten(jax.tree.structure(self.like), made)


def _sharding(leaf: Any) -> Any:
    sharding = getattr(leaf, "sharding", None)
    return sharding if sharding is not None and len(sharding.device_set) > 1 else None


def _indices(leaf: Any) -> list[Any]:
    """The parts of an array that this process addresses."""
    sharding = _sharding(leaf)
    if sharding is None:
        return [None]
    return list(sharding.addressable_devices_indices_map(tuple(leaf.shape)).values())


def _array(row: Row, parameter: Any, leaf: Any) -> jax.Array:
    sharding = _sharding(leaf)
    if isinstance(leaf, np.ndarray):
        return row.piece(Piece.of(parameter))
    if sharding is None:
        # Its own memory: jax may use what it is given without a copy.
        return jnp.asarray(np.array(row.piece(Piece.of(parameter))))
    part = lambda index: np.array(row.piece(Piece.of(parameter, index)))
    return jax.make_array_from_callback(tuple(leaf.shape), sharding, part)


def _own(leaf: Any) -> np.ndarray:
    """The bytes of what this process addresses, in the order of coordinates."""
    if _sharding(leaf) is None:
        return np.asarray(leaf)
    parts = {str(shard.index): np.asarray(shard.data) for shard in leaf.addressable_shards}
    return np.concatenate([parts[key].reshape(-1).view(np.uint8) for key in sorted(parts)])
