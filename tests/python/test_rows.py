"""Rows of `rustle noise` against C⁻¹Z in float64, Z by `rustle noise --iid`."""

import numpy as np
import pytest
from matrices import Tree, binomial_series, inverse, lower_toeplitz, strategy
from rustle import LONG, noise, plan
from scipy.linalg import solve_triangular

ROWS = 1000
COORDINATES = (100, 1700)
SIGMA, CLIP = 2.5, 0.4
TOLERANCE = 2e-6

B100 = {
    "name": "blt",
    "theta": [0.989739971007307, 0.7352001759538236, 0.16776199983448145, 0.1677619998016191],
    "omega": [0.20502892852480875, 0.23357939425278557, 0.03479503245420878, 0.03479509876050538],
}
B400 = {
    "name": "blt",
    "theta": [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778],
    "omega": [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734],
}


def columns(n, bands):
    """Columns of norm 1 that change from row to row, cut off at row n − 1."""
    shape = binomial_series(-0.5, bands)[None] ** (1 + np.arange(n)[:, None] / n)
    shape[np.add.outer(np.arange(n), np.arange(bands)) >= n] = 0.0
    return (shape / np.linalg.norm(shape, axis=1, keepdims=True)).tolist()


def triangle(n):
    """A dense C that is not Toeplitz: the square root of the prefix sums with a ripple."""
    c = lower_toeplitz(binomial_series(-0.5, n), n) * (1 + 0.3 * np.cos(np.arange(n)))
    return [row[: t + 1].tolist() for t, row in enumerate(c)]


MECHANISMS = {
    "identity": {"name": "identity"},
    "blt-b100": B100,
    "blt-b400": B400,
    "blt-7-buffers": {"name": "blt", "theta": [1 - 0.5**i for i in range(1, 8)], "omega": [0.07] * 7},
    "band-toeplitz": {"name": "band-toeplitz", "coefficients": [2.0, 1.1, 0.75, 0.5, 0.4, 0.3, 0.2]},
    "band-toeplitz-normalised": {
        "name": "band-toeplitz",
        "coefficients": binomial_series(-0.5, 40).tolist(),
        "column_normalised": True,
    },
    "band-toeplitz-scaled": {
        "name": "band-toeplitz",
        "coefficients": [1.0, 0.5, 0.4, 0.3],
        "column_scales": [1.0, 0.9, 0.75],
        "rounds_per_scale": 17,
    },
    "blt-scaled": {**B100, "column_scales": [1.0, 0.9, 0.75], "rounds_per_scale": 17},
    "band-mf": {"name": "band-mf", "columns": columns(ROWS, 24)},
    "band-sqrt": {"name": "band-sqrt", "bands": 64},
    "band-sqrt-all": {"name": "band-sqrt", "bands": ROWS},
    "band-inverse": {"name": "band-inverse", "coefficients": [1.0, -0.55, -0.1, -0.04, 0.02]},
    "band-inverse-sqrt": {"name": "band-inverse-sqrt", "bands": 64},
    "lambda-cgd": {"name": "lambda-cgd", "lambda": 0.93},
    "dense": {"name": "dense", "matrix": triangle(ROWS)},
}


def served(folder, mechanism, rows=ROWS):
    spec = plan(mechanism, rows, noise_multiplier=SIGMA, clip_norm=CLIP)
    made = noise(folder, spec, (0, rows), COORDINATES).astype(np.float64) / (SIGMA * CLIP)
    return made, noise(folder, spec, (0, rows), COORDINATES, iid=True).astype(np.float64)


@pytest.mark.parametrize("name", MECHANISMS)
def test_rows_are_c_inverse_z(tmp_path, name):
    mechanism = MECHANISMS[name]
    rows, z = served(tmp_path, mechanism)
    if name.startswith(("band-inverse", "lambda")):
        expected = inverse(mechanism, ROWS) @ z
    else:
        expected = solve_triangular(strategy(mechanism, ROWS), z, lower=True)
    error = np.abs(rows - expected).max()
    assert error <= TOLERANCE, f"{error:.1e}"


@pytest.mark.parametrize("name", MECHANISMS)
def test_c_times_rows_is_z(tmp_path, name):
    mechanism = MECHANISMS[name]
    rows, z = served(tmp_path, mechanism)
    c = strategy(mechanism, ROWS)
    # Each row may be off by the tolerance, all in the same direction at worst.
    bound = TOLERANCE * np.abs(c).sum(axis=1, keepdims=True)
    assert (np.abs(c @ rows - z) <= bound).all()


@pytest.mark.skipif(not LONG, reason="RUSTLE_LONG")
def test_4000_rows_of_a_decay_next_to_one(tmp_path):
    rows, z = served(tmp_path, B400, 4000)
    expected = solve_triangular(strategy(B400, 4000), z, lower=True)
    assert np.abs(rows - expected).max() <= TOLERANCE


@pytest.mark.parametrize("first", [1, 63, 64, 500])
@pytest.mark.parametrize("name", ["blt-b400", "band-mf", "band-inverse-sqrt", "tree"])
def test_rows_from_the_middle_are_the_same(tmp_path, name, first):
    mechanism = MECHANISMS.get(name, {"name": "tree", "restarts": [300], "completion": True})
    spec = plan(mechanism, ROWS)
    whole = noise(tmp_path, spec, (0, first + 5), COORDINATES)
    part = noise(tmp_path, spec, (first, first + 5), (600, 1100))
    assert np.array_equal(part.view(np.uint32), whole[first:, 500:1000].view(np.uint32))


TREES = {
    "plain": {},
    "restarts": {"restarts": [300, 301, 700]},
    "completion": {"restarts": [300, 301, 700], "completion": True},
}


@pytest.mark.parametrize("name", TREES)
def test_prefix_sums_of_a_tree_are_honakers_estimate(tmp_path, name):
    rows, nodes = served(tmp_path, {"name": "tree", **TREES[name]})
    tree = Tree(ROWS, **TREES[name])
    assert nodes.shape[0] == tree.nodes
    expected = tree.prefixes() @ nodes
    assert np.abs(rows - np.diff(expected, axis=0, prepend=0.0)).max() <= TOLERANCE
    # The roundings of different rows are independent, so a sum of t of them grows as √t.
    error = np.abs(np.cumsum(rows, axis=0) - expected).max(axis=1)
    assert (error <= TOLERANCE * np.sqrt(1 + np.arange(ROWS))).all()


def test_the_estimate_of_a_tree_is_least_squares():
    """Honaker's weights give the least variance that any unbiased weights of the subtree's nodes can."""
    tree = Tree(8)
    _, _, leaves, numbers = tree.trees[0]
    above = np.zeros((tree.nodes, leaves))
    for (level, number), node in numbers.items():
        above[node, number << level : (number + 1) << level] = 1.0
    least = np.ones(leaves) @ np.linalg.pinv(above)
    assert np.allclose(tree.prefixes()[7], least, atol=1e-12)
