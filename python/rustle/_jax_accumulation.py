"""Sums of several micro-batches in JAX, which have one row together."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Iterator, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import io_callback

from . import _arguments
from ._session import Session

# The sessions of the privatizers that are initialised now, while something wants to know them.
_initialised: ContextVar[list[Session] | None] = ContextVar("initialised", default=None)


def note_initialised(session: Session) -> None:
    """States that a privatizer of the session is initialised now."""
    found = _initialised.get()
    if found is not None:
        found.append(session)


@contextmanager
def _noting() -> Iterator[list[Session]]:
    found: list[Session] = []
    before = _initialised.set(found)
    try:
        yield found
    finally:
        _initialised.reset(before)


class AccumulationState(NamedTuple):
    """The state of :func:`accumulated`: micro-batches so far, their sum, and the state within."""

    micro_batches: jax.Array
    sums: Any
    inner: Any


def accumulated(
    optimizer: optax.GradientTransformation, micro_batches: int
) -> optax.GradientTransformation:
    """Lets an optimizer with a privatizer step once for several micro-batches, whose clipped sums are added.

    Takes the place of ``optax.MultiSteps``, which evaluates the optimizer at every micro-batch and so would ask for the
    row of a step several times; its mean is no sum either. Updates are zero until the last micro-batch of a step. Works
    within ``jit`` and outside. Parameters must not be changed between the micro-batches of a step.

    Where the privatizer's session has :class:`rustle.Rounds`, sums of micro-batches that are not of the batch that was handed out
    last, as after a loop that was left within a step, are dropped: that batch comes again, whole.

    Args:
        optimizer: Such as ``optax.chain(privatizer, optax.scale(1 / batch_size), optax.adam(1e-3))``.
        micro_batches: How many make one batch.
    """
    allowed = "an optax.GradientTransformation, such as optax.chain(privatizer, …)"
    _arguments.instance("optimizer", optimizer, optax.GradientTransformation, allowed)
    micro_batches = _arguments.whole("micro_batches", micro_batches, 1)
    places = _Places(optimizer)

    def init(params: Any) -> AccumulationState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return AccumulationState(jnp.zeros((), jnp.int32), zeros, optimizer.init(params))

    def update(sums: Any, state: AccumulationState, params: Any = None) -> tuple[Any, AccumulationState]:
        before = places.kept(sums, state)
        total = jax.tree.map(lambda kept, new: jnp.where(before > 0, kept, 0) + new, state.sums, sums)

        def step() -> tuple[Any, AccumulationState]:
            updates, inner = optimizer.update(total, state.inner, params)
            zeros = jax.tree.map(jnp.zeros_like, total)
            return updates, AccumulationState(jnp.zeros((), jnp.int32), zeros, inner)

        def wait() -> tuple[Any, AccumulationState]:
            zeros = jax.tree.map(jnp.zeros_like, total)
            return zeros, AccumulationState(before + 1, total, state.inner)

        is_last = before + 1 >= micro_batches
        if isinstance(is_last, jax.core.Tracer):
            return jax.lax.cond(is_last, step, wait)
        return step() if is_last else wait()

    return optax.GradientTransformation(init, update)


class _Places:
    """Knows which batch the micro-batches so far are of, on the host."""

    def __init__(self, optimizer: optax.GradientTransformation):
        self._optimizer = optimizer
        self._session: Session | None = None
        self._is_known = False
        #: The batch that sums were begun with, and how many of its micro-batches there are.
        self._batch: Any = None
        self._count = 0
        # Rounds whose repetitions are noted here, and how many there were.
        self._watched: Any = None
        self._repeats = 0

    def kept(self, sums: Any, state: AccumulationState) -> jax.Array:
        """Returns how many micro-batches of the state are of the batch that was handed out last: all or none."""
        if not self._is_known:
            # Not where the optimizer is initialised: a state may come from a checkpoint.
            with _noting() as found:
                jax.eval_shape(self._optimizer.init, sums)
            self._session, self._is_known = (found[0] if found else None), True
        if self._session is None:
            return state.micro_batches
        leaves = [*jax.tree.leaves(sums), *jax.tree.leaves(state)]
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            shape = jax.ShapeDtypeStruct((), jnp.int32)
            return io_callback(self._on_host, shape, state.micro_batches, ordered=True)
        return jnp.asarray(self._on_host(state.micro_batches))

    def _on_host(self, count: Any) -> np.ndarray:
        assert self._session is not None
        found, rounds = int(count), self._session.rounds
        if rounds is None:
            return np.asarray(found, np.int32)
        if rounds is not self._watched:
            rounds.on_repeat.append(self._repeated)
            self._watched = rounds
        step = self._session._native.next_step
        # A micro-batch too many, of a batch that had its step.
        rounds.check(step)
        batch = step, self._repeats, self._session.positions, id(rounds)
        if self._batch != batch or found != self._count:
            self._batch, found = batch, 0
        self._count = found + 1
        return np.asarray(found, np.int32)

    def _repeated(self, _: int) -> None:
        self._repeats += 1
