"""Correlated noise as one writes it in PyTorch from the papers, with ``torch.normal``: what Rustle is held against."""

from __future__ import annotations

from collections import deque

import torch


def normal(dimension: int) -> torch.Tensor:
    return torch.normal(0.0, 1.0, (dimension,))


class Independent:
    def __init__(self, dimension: int):
        self.dimension = dimension

    def row(self) -> torch.Tensor:
        return normal(self.dimension)


class Banded:
    """Rows of C⁻¹Z for a banded Toeplitz C: the recursion x_t = (z_t − Σ c_i·x_{t−i})/c_0 over the last rows."""

    def __init__(self, column: list[float], dimension: int):
        self.column, self.dimension = column, dimension
        self.past: deque[torch.Tensor] = deque(maxlen=len(column) - 1)

    def row(self) -> torch.Tensor:
        row = normal(self.dimension)
        for coefficient, past in zip(self.column[1:], self.past):
            row -= coefficient * past
        row /= self.column[0]
        self.past.appendleft(row)
        return row


class Blt:
    """Rows of C⁻¹Z for a BLT C with decays θ and scales ω: x_t = z_t − Σ ω_j·s_j, then s_j = θ_j·s_j + x_t."""

    def __init__(self, buffers: list[tuple[float, float]], dimension: int):
        self.buffers, self.dimension = buffers, dimension
        self.state = [torch.zeros(dimension) for _ in buffers]

    def row(self) -> torch.Tensor:
        row = normal(self.dimension)
        for (_, scale), state in zip(self.buffers, self.state, strict=True):
            row -= scale * state
        for (decay, _), state in zip(self.buffers, self.state, strict=True):
            state.mul_(decay).add_(row)
        return row


class Tree:
    """Differences of prefix sums of a binary tree by Honaker's estimate from below."""

    def __init__(self, leaves: int, dimension: int):
        self.dimension, self.at = dimension, 0
        self.levels: list[torch.Tensor | None] = [None] * (leaves.bit_length() + 1)
        self.before = torch.zeros(dimension)

    def row(self) -> torch.Tensor:
        estimate, level = normal(self.dimension), 0
        # A subtree that ends here joins the one on its left.
        while (left := self.levels[level]) is not None:
            own = 2 ** (level + 1) / (2 ** (level + 2) - 1)
            estimate = own * normal(self.dimension) + (1 - own) * (left + estimate)
            self.levels[level] = None
            level += 1
        self.levels[level] = estimate
        total = sum(kept for kept in self.levels if kept is not None)
        row, self.before = total - self.before, total
        return row
