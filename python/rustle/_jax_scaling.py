"""Adaptive steps by scaling before the noise: Ganesh, McMahan, Thakurta (2025), scale-then-privatize."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from . import _arguments


class ScalingState(NamedTuple):
    """The state of :class:`Scaling`: the privatizer's, and moving means of squares of noisy gradients."""

    noise: Any
    squares: Any


class Scaling:
    """Scales gradients by what noisy gradients were so far, before they are clipped and have noise, and back after it.

    Coordinates with small gradients have less noise then, those with large ones more. Scales are made of released
    values alone, so the account is the plan's.

    Args:
        privatizer: That of :func:`privatizer`.
        divide_by: The number that noisy sums are divided by for a gradient, such as the batch size.
        decay: β of the moving means of squares.
        floor: The least root of a mean that a scale is made of, relative to the root of the mean over all coordinates.

    Example::

        scaling = rustle.jax.Scaling(rustle.jax.privatizer(session), divide_by=256)
        state = scaling.init(params)
        scales = scaling.scales(state)
        sums = clipped_sum(params, x, y, scales)         # yours: clips scales · gradient of each example
        gradient, state = scaling.update(sums, state)    # of the unscaled loss, with noise
    """

    def __init__(
        self,
        privatizer: optax.GradientTransformation,
        *,
        divide_by: float,
        decay: float = 0.99,
        floor: float = 1e-2,
    ):
        _arguments.instance("privatizer", privatizer, optax.GradientTransformation, "that of rustle.jax.privatizer(session)")
        divide_by, floor = _arguments.above_zero("divide_by", divide_by), _arguments.above_zero("floor", floor)
        decay = _arguments.number("decay", decay)
        if not 0 <= decay < 1:
            raise _arguments.refused("decay", decay, "from 0, below 1")
        self._privatizer, self._divide_by = privatizer, divide_by
        self._decay, self._floor = decay, floor

    def init(self, params: Any) -> ScalingState:
        """Returns the state before the first step, in which all scales are one."""
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), params)
        return ScalingState(self._privatizer.init(params), zeros)

    def scales(self, state: ScalingState) -> Any:
        """Returns what each example's gradient is multiplied by before it is clipped; their mean square is one."""
        leaves = jax.tree.leaves(state.squares)
        size = sum(leaf.size for leaf in leaves)
        mean = sum(jnp.sum(leaf) for leaf in leaves) / size
        # Before the first step all are one.
        root = jnp.sqrt(jnp.where(mean > 0, mean, 1.0))
        inverse = jax.tree.map(
            lambda leaf: 1 / jnp.maximum(jnp.sqrt(leaf), self._floor * root), state.squares
        )
        square = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(inverse)) / size
        return jax.tree.map(lambda leaf: leaf / jnp.sqrt(square), inverse)

    def update(self, sums: Any, state: ScalingState) -> tuple[Any, ScalingState]:
        """Returns the noisy gradient, and the state after it. ``sums``: of scaled gradients, each clipped after that."""
        scales = self.scales(state)
        noisy, noise = self._privatizer.update(sums, state.noise)
        gradient = jax.tree.map(lambda x, scale: x / (scale * self._divide_by), noisy, scales)
        kept = lambda square, x: self._decay * square + (1 - self._decay) * jnp.asarray(x, jnp.float32) ** 2
        squares = jax.tree.map(kept, state.squares, gradient)
        return gradient, ScalingState(noise, squares)
