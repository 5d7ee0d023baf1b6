"""The wide model of `trainings/`: its gradient beside differences of its loss, and its sum beside each example alone."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "trainings"))

import wide_character as wide  # noqa: E402

SHAPE = wide.Shape(symbols=7, context=5, embedding=3, hidden=(11, 6))


def lines(count):
    dice = np.random.default_rng(1)
    # Characters come twice in a context: their embedding has one gradient.
    return dice.integers(0, 3, (count, 5)), dice.integers(0, 7, count)


def model():
    vector = SHAPE.initial(3)
    vector += np.random.default_rng(4).normal(0, 0.3, len(vector)).astype(np.float32)
    return vector


def summed(vector, contexts, after, clip_norm):
    out = np.full(SHAPE.dimension, np.nan, np.float32)
    wide.clipped_sum(SHAPE, vector, (contexts, after), clip_norm, out)
    return out.astype(np.float64)


def test_a_wide_gradient_is_the_loss_s():
    vector, (contexts, after) = model(), lines(1)
    found = summed(vector, contexts, after, 1e9)
    for direction in np.random.default_rng(5).normal(size=(20, SHAPE.dimension)):
        direction /= np.linalg.norm(direction)
        above, below = (
            wide.bits(SHAPE, vector + sign * 1e-3 * direction, contexts, after) * np.log(2) for sign in (1, -1)
        )
        assert (above - below) / 2e-3 == pytest.approx(found @ direction, abs=2e-3 * np.linalg.norm(found))


def test_a_wide_sum_is_of_clipped_gradients():
    vector, (contexts, after) = model(), lines(9)
    each = [summed(vector, contexts[[one]], after[[one]], 1e9) for one in range(9)]
    norms = [np.linalg.norm(one) for one in each]
    clip_norm = float(np.median(norms))
    clipped = sum(one * min(1, clip_norm / norm) for one, norm in zip(each, norms))
    assert np.allclose(summed(vector, contexts, after, clip_norm), clipped, atol=1e-5)
