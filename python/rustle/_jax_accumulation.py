"""Sums of several micro-batches in JAX, which have one row together."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from . import errors


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

    Args:
        optimizer: Such as ``optax.chain(privatizer, optax.scale(1 / batch_size), optax.adam(1e-3))``.
        micro_batches: How many make one batch.
    """
    if micro_batches < 1:
        raise errors.make("invalid_argument", f"micro_batches is {micro_batches}; allowed: 1 or more")

    def init(params: Any) -> AccumulationState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return AccumulationState(jnp.zeros((), jnp.int32), zeros, optimizer.init(params))

    def update(sums: Any, state: AccumulationState, params: Any = None) -> tuple[Any, AccumulationState]:
        total = jax.tree.map(jnp.add, state.sums, sums)

        def step() -> tuple[Any, AccumulationState]:
            updates, inner = optimizer.update(total, state.inner, params)
            zeros = jax.tree.map(jnp.zeros_like, total)
            return updates, AccumulationState(jnp.zeros((), jnp.int32), zeros, inner)

        def wait() -> tuple[Any, AccumulationState]:
            zeros = jax.tree.map(jnp.zeros_like, total)
            return zeros, AccumulationState(state.micro_batches + 1, total, state.inner)

        is_last = state.micro_batches + 1 >= micro_batches
        if isinstance(is_last, jax.core.Tracer):
            return jax.lax.cond(is_last, step, wait)
        return step() if is_last else wait()

    return optax.GradientTransformation(init, update)
