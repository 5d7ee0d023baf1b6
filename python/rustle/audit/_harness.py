"""Attacks on trainings: on what they return, and on what they release."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import _arguments, errors
from ._bounds import Bound, as_scores, bound

#: Trains with the canaries that a mask says, from a seed, and returns one score a canary, or noisy sums.
Train = Callable[[np.ndarray, int], Any]

_TRAIN = "a function of included and seed"

# Relative size below which a direction of the noise is taken for none: float32 sums have rounding beneath it.
_FLOOR = 1e-10


def coins(canaries: int, seed: int) -> np.ndarray:
    """A fair coin for each canary: which of them are to be included."""
    canaries, seed = _arguments.whole("canaries", canaries, 1), _arguments.whole("seed", seed)
    return np.random.default_rng([seed, 0]).random(canaries) < 0.5


def black_box(
    train: Train,
    canaries: int,
    *,
    delta: float,
    epsilon: float | None = None,
    confidence: float = 0.99,
    method: str = "one-run",
    guesses: int | None = None,
    seed: int = 0,
) -> Bound:
    """Audits a training by what it returns.

    Args:
        train: ``train(included, seed)`` runs the training with those canaries of which ``included`` (bool, one for each) is
            true beside all else that is trained on, and returns a score for each, such as its loss with the sign
            changed. It must not use ``included`` for scores.
        canaries: Their number. Each is included by a fair coin.

    The rest is as in :func:`bound`.
    """
    included = coins(canaries, seed)
    found = _arguments.function("train", train, _TRAIN)(included.copy(), seed)
    scores = as_scores("what train returned", found).reshape(-1)
    if scores.size != canaries:
        raise _arguments.refused("what train returned", found, f"one number for each of {canaries} canaries")
    return bound(
        scores, included, delta=delta, epsilon=epsilon, confidence=confidence, method=method, guesses=guesses
    )


def white_box(
    train: Train,
    canaries: int,
    *,
    delta: float,
    epsilon: float | None = None,
    confidence: float = 0.99,
    method: str = "clopper-pearson",
    seed: int = 0,
) -> Bound:
    """Audits a training by all that it releases about gradient canaries.

    A gradient canary is a record whose gradient lies along a coordinate of its own, and nothing else moves that
    coordinate. What the training releases there depends on that record alone and on noise that no other canary has, so
    that scores of one run are independent. All canaries take part in the same steps.

    Args:
        train: ``train(included, seed)`` returns an array (rows, canaries): for each canary every noisy sum that was
            released at its coordinate, or anything linear in them, such as the parameter after each step.
        canaries: Their number. Each is included by a fair coin.
        method: ``"gaussian"`` where the training is claimed to be a Gaussian mechanism, as a plan's is without sampling.

    The attack is learned from half of the canaries (:func:`learned_scores`) and bounds ε by the others, so that it knows
    neither steps nor matrix nor σ and finds a mistake in any of them. The rest is as in :func:`bound`.
    """
    included = coins(canaries, seed)
    found = _arguments.function("train", train, _TRAIN)(included.copy(), seed)
    seen = as_scores("what train returned", found)
    if seen.ndim != 2 or seen.shape[1] != canaries:
        text = f"the training returned an array of shape {seen.shape}; allowed: (rows, {canaries})"
        raise errors.make("invalid_argument", text)
    scores, labels = learned_scores(seen, included, seed=seed)
    return bound(scores, labels, delta=delta, epsilon=epsilon, confidence=confidence, method=method)


def learned_scores(released: Any, included: Any, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Learns from half of the canaries how included ones differ, and scores the other half.

    ``released``: (rows, canaries). The direction is Fisher's: the difference of means over the covariance of the rest.
    Returns scores and labels of the half that it was not learned from.
    """
    seen, labels = np.asarray(released, np.float64), np.asarray(included, np.bool_)
    order = np.random.default_rng([seed, 1]).permutation(len(labels))
    pilot, held = order[: len(order) // 2], order[len(order) // 2 :]
    inside, outside = seen[:, pilot[labels[pilot]]], seen[:, pilot[~labels[pilot]]]
    if min(inside.shape[1], outside.shape[1]) <= len(seen):
        text = (
            f"{len(labels)} canaries are too few to learn an attack on {len(seen)} rows from half of them; "
            f"allowed: {8 * (len(seen) + 1)} canaries or more"
        )
        raise errors.make("invalid_argument", text)
    means = [part.mean(axis=1, keepdims=True) for part in (inside, outside)]
    rest = np.concatenate([inside - means[0], outside - means[1]], axis=1)
    sizes, axes = np.linalg.eigh(rest @ rest.T / rest.shape[1])
    apart = (means[0] - means[1])[:, 0]
    floor = max((sizes.max() + apart @ apart) * _FLOOR, np.finfo(float).tiny)
    direction = axes @ ((axes.T @ apart) / np.maximum(sizes, floor))
    length = np.linalg.norm(direction)
    direction = direction / length if 0 < length < np.inf else np.ones(len(seen))
    return direction @ seen[:, held], labels[held]
