"""Strategy matrices, errors and sensitivities, dense and in float64: slow, and plain to see."""

from itertools import combinations

import numpy as np
from scipy.linalg import solve_triangular, toeplitz


def lower_toeplitz(column, n):
    column = np.concatenate([column, np.zeros(n)])[:n]
    return toeplitz(column, np.zeros(n))


def binomial_series(power, count):
    """Coefficients of (1 − x)^power."""
    series = np.ones(count)
    for k in range(1, count):
        series[k] = series[k - 1] * (k - 1 - power) / k
    return series


def strategy(mechanism, n):
    """C of a plan's mechanism; trees have no square one."""
    if "column_scales" in mechanism:
        scales = list(mechanism["column_scales"])
        base = {k: v for k, v in mechanism.items() if k not in ("column_scales", "rounds_per_scale")}
        stretch = np.arange(n) // mechanism["rounds_per_scale"]
        return strategy(base, n) * np.array(scales)[np.minimum(stretch, len(scales) - 1)]
    name = mechanism["name"]
    if name == "identity":
        return np.eye(n)
    if name == "blt":
        theta, omega = np.array(mechanism["theta"]), np.array(mechanism["omega"])
        return lower_toeplitz(np.concatenate([[1.0], theta[None] ** np.arange(n)[:, None] @ omega]), n)
    if name == "band-toeplitz":
        c = lower_toeplitz(mechanism["coefficients"], n)
        return c / np.linalg.norm(c, axis=0) if mechanism.get("column_normalised") else c
    if name == "band-sqrt":
        return lower_toeplitz(binomial_series(-0.5, mechanism["bands"]), n)
    if name == "band-mf":
        c = np.zeros((n, n))
        for j, column in enumerate(mechanism["columns"]):
            c[j : j + len(column), j] = column[: n - j]
        return c
    if name == "dense":
        c = np.zeros((n, n))
        for t, row in enumerate(mechanism["matrix"]):
            c[t, : t + 1] = row
        return c
    return solve_triangular(inverse(mechanism, n), np.eye(n), lower=True)


def inverse(mechanism, n):
    """C⁻¹ of the mechanisms that are given by it."""
    first_column = {
        "band-inverse": lambda: mechanism["coefficients"],
        "band-inverse-sqrt": lambda: binomial_series(0.5, mechanism["bands"]),
        "lambda-cgd": lambda: [1.0, -mechanism["lambda"]],
    }[mechanism["name"]]
    return lower_toeplitz(first_column(), n)


def prefix_errors(c):
    """Standard deviation of every prefix sum's noise, in units of σζ."""
    decoder = np.cumsum(np.linalg.inv(c), axis=0)
    return np.linalg.norm(decoder, axis=1)


def patterns(n, min_sep, max_participations):
    """All sets of at most `max_participations` rows, any two at least `min_sep` apart."""
    for size in range(1, max_participations + 1):
        for gaps in combinations(range(n - (size - 1) * (min_sep - 1)), size):
            yield [row + i * (min_sep - 1) for i, row in enumerate(gaps)]


def sensitivity(c, min_sep, max_participations):
    """The worst ‖C·u‖ over all patterns, C ≥ 0: all participations pull the same way."""
    allowed = patterns(len(c), min_sep, max_participations)
    return max(np.linalg.norm(c[:, rows].sum(axis=1)) for rows in allowed)


def sensitivity_any_sign(c, min_sep, max_participations):
    """The worst ‖C·U‖ over patterns and over rows of U of norm 1, from the signs alone: a lower bound."""
    worst = 0.0
    for rows in patterns(len(c), min_sep, max_participations):
        gram = c[:, rows].T @ c[:, rows]
        signs = np.array(np.meshgrid(*[[-1, 1]] * len(rows))).reshape(len(rows), -1)
        worst = max(worst, np.sqrt(np.einsum("is,ij,js->s", signs, gram, signs).max()))
    return worst


class Tree:
    """Trees one after another over n rows, their nodes numbered in order of completion."""

    def __init__(self, n, restarts=(), completion=False):
        starts, ends = [0, *restarts], [*restarts, n]
        self.n, self.trees, self._estimates, first = n, [], {}, 0
        for start, end in zip(starts, ends):
            leaves = end - start
            if completion and end < n:
                leaves = 1 << (leaves - 1).bit_length()
            nodes = {}
            for leaf in range(leaves):
                level = 0
                while (leaf + 1) % (1 << level) == 0:
                    nodes[level, leaf >> level] = first + len(nodes)
                    level += 1
            self.trees.append((start, end, leaves, nodes))
            first += len(nodes)
        self.nodes = first

    def prefixes(self):
        """M with prefix estimates = M·(node noises): row t estimates the sum of rows 0..=t."""
        weights, done = np.zeros((self.n, self.nodes)), np.zeros(self.nodes)
        for start, end, leaves, nodes in self.trees:
            for row in range(start, end):
                weights[row] = done
                covered = leaves if row + 1 == end and leaves > end - start else row - start + 1
                position = 0
                for level in reversed(range(covered.bit_length())):
                    if covered >> level & 1:
                        weights[row] += self._estimate(nodes, level, position >> level)
                        position += 1 << level
            done = weights[end - 1].copy()
        return weights

    def _estimate(self, nodes, level, number):
        """The least-variance estimate of a subtree's sum: its own node and its children's estimates, each
        weighted by one over its variance."""
        node = nodes[level, number]
        if node not in self._estimates:
            self._estimates[node] = self._new_estimate(nodes, level, number)
        return self._estimates[node]

    def _new_estimate(self, nodes, level, number):
        own = np.zeros(self.nodes)
        own[nodes[level, number]] = 1.0
        if level == 0:
            return own
        below = self._estimate(nodes, level - 1, 2 * number) + self._estimate(nodes, level - 1, 2 * number + 1)
        precision = 1.0 / (below @ below)
        return (own + precision * below) / (1.0 + precision)

    def sensitivity(self, min_sep, max_participations):
        """A participation changes every node above it by one."""
        above = np.zeros((self.nodes, self.n))
        for start, end, _, nodes in self.trees:
            for (level, number), node in nodes.items():
                above[node, start + (number << level) : min(end, start + ((number + 1) << level))] = 1.0
        return max(np.linalg.norm(above[:, rows].sum(axis=1)) for rows in patterns(self.n, min_sep, max_participations))
