"""How many records of a user to take, and how many users a round: the heuristics of Charles et al. (2024), §6.

They look at the data: sizes and norms of public or otherwise paid for data cost nothing, others are in no ε here.
"""

from __future__ import annotations

from typing import Callable, Iterable, Sequence

import numpy as np

from . import _arguments, errors
from ._native import user_level_noise_multiplier
from .federated._clients import norm_of

__all__ = ["els", "typical_norm", "uls"]


def els(sizes: Sequence[int]) -> int:
    """G of ELS: the median of how many records users have, at least 1."""
    found = _arguments.numbers("sizes", sizes)
    if not found:
        raise errors.make("invalid_argument", "sizes are empty; allowed: one for each user")
    return max(1, int(np.median(np.asarray(found))))


def typical_norm(users: Iterable[np.ndarray], group_size: int, random: np.random.Generator) -> float:
    """L_ULS(G): the median over users of the norm of the mean of at most G of their gradients.

    ``users``: each user's gradients, shape (records, dimension).
    """
    norms = []
    for gradients in users:
        gradients = np.asarray(gradients, np.float64)
        if gradients.ndim != 2 or not len(gradients):
            text = f"a user's gradients have shape {gradients.shape}; allowed: (1 or more records, dimension)"
            raise errors.make("invalid_argument", text)
        taken = random.choice(len(gradients), min(group_size, len(gradients)), replace=False)
        norms.append(norm_of(gradients[taken].mean(0)))
    if not norms:
        raise errors.make("invalid_argument", "users are empty; allowed: one or more")
    return float(np.median(norms))


def uls(
    budget: int,
    users: int,
    norm: Callable[[int], float],
    *,
    iterations: int,
    epsilon: float,
    delta: float,
    start: tuple[int, int] = (1, 1),
    neighbouring: str = "zero-out",
) -> tuple[int, int]:
    """(G, M) of ULS for ``budget`` gradients a round among ``users``: doubles what lowers the noise's variance more.

    ``norm``: L_ULS(G), such as :func:`typical_norm`. A doubling of M is weighed by σ(M)/M, the noise of the mean; M is
    at most ``users``. The result's product is the largest start·2^k within the budget.
    """
    group, cohort = start
    if not (1 <= group and 1 <= cohort <= users and group * cohort <= budget):
        text = (
            f"start is {start}; allowed: 1 or more each, at most {users} users, a product of at most {budget}"
        )
        raise errors.make("invalid_argument", text)

    def noise(cohort: int) -> float:
        q = cohort / users
        return user_level_noise_multiplier((q, 1, iterations), (epsilon, delta), neighbouring) / cohort

    here, length = noise(cohort), norm(group)
    while 2 * group * cohort <= budget:
        longer = norm(2 * group)
        there = noise(2 * cohort) if 2 * cohort <= users else None
        if there is not None and there / here <= longer / length:
            cohort, here = 2 * cohort, there
        else:
            group, length = 2 * group, longer
    return group, cohort
