"""Where named parameters, and local parts of them, lie in the flattened vector.

Coordinates are global: they depend on the parameters' names, order and shapes alone, not on how many processes share
them. So noise meets the same parameter after a restart on another number of ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

import numpy as np

from . import _native, errors
from ._commitment import Commitment

Index = tuple[slice, ...]


@dataclass(frozen=True)
class Parameter:
    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Layout:
    """Parameters one after another."""

    def __init__(self, parameters: Iterable[tuple[str, Sequence[int]]]):
        self.parameters: dict[str, Parameter] = {}
        start = 0
        for name, shape in parameters:
            if name in self.parameters:
                raise errors.make("layout", f"two parameters are named {name!r}; allowed: each name once")
            parameter = Parameter(name, tuple(int(length) for length in shape), start)
            self.parameters[name] = parameter
            start += parameter.size
        self.dimension = start
        self.digest = _native.layout_digest([(p.name, list(p.shape)) for p in self.parameters.values()])

    @classmethod
    def of(cls, parameters: Sequence[tuple[str, Sequence[int]]], session: Any) -> "Layout":
        """The layout of these parameters, in the order of the session's plan where that names them."""
        named = session.plan.parameters
        layout = cls(parameters)
        if named:
            if {n: tuple(s) for n, s in named} != {p.name: p.shape for p in layout.parameters.values()}:
                raise errors.make("layout", _difference(named, layout))
            layout = cls(named)
        if layout.dimension != session.dimension:
            text = (
                f"the parameters have {layout.dimension} coordinates in all; allowed: {session.dimension}, as many as the "
                "job has: another plan or model"
            )
            raise errors.make("layout", text)
        return layout


def _difference(named: Sequence[tuple[str, Sequence[int]]], layout: Layout) -> str:
    planned = {name: tuple(shape) for name, shape in named}
    given = {p.name: p.shape for p in layout.parameters.values()}
    for name in [*planned, *given]:
        if planned.get(name) != given.get(name):
            absent = "absent"
            return f"parameter {name!r} is {given.get(name, absent)} here and {planned.get(name, absent)} in the plan"
    return "the parameters are not those of the plan"


@dataclass(frozen=True)
class Piece:
    """A local part of a parameter: the smallest stretch of coordinates that holds it, and its place in there."""

    start: int
    end: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, parameter: Parameter, index: Index | None = None) -> "Piece":
        """``index``: a slice of each axis; the whole parameter where left away."""
        strides = tuple(math.prod(parameter.shape[axis + 1 :]) for axis in range(len(parameter.shape)))
        bounds = [slice(None)] * len(strides) if index is None else list(index)
        ranges = [bound.indices(length)[:2] for bound, length in zip(bounds, parameter.shape, strict=True)]
        shape = tuple(max(end - start, 0) for start, end in ranges)
        start = parameter.start + sum(first * stride for (first, _), stride in zip(ranges, strides))
        length = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides)) if math.prod(shape) else 0
        return cls(start, start + length, shape, strides)

    def view(self, values: np.ndarray, first: int) -> np.ndarray:
        """The piece of ``values``, whose first is coordinate ``first``; no copy."""
        if self.start == self.end:
            return np.empty(self.shape, np.float32)
        here = values[self.start - first : self.end - first]
        return np.lib.stride_tricks.as_strided(here, self.shape, [4 * s for s in self.strides])


def spans(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, joined where they touch or overlap; empty ones left out."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(r for r in ranges if r[0] < r[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def share(dimension: int, rank: int, ranks: int) -> tuple[int, int]:
    """The part of the vector whose noise this rank adds: whole blocks of 512 coordinates."""
    blocks = -(-dimension // 512)
    bound = lambda r: min(blocks * r // ranks * 512, dimension)
    return bound(rank), bound(rank + 1)


def declared(nonce: bytes, step: int) -> Commitment:
    """An adapter's commitment of a step: no other session can give it."""
    return Commitment.declared(b"adapter" + nonce + step.to_bytes(8, "little"))


def skipped(session: Any, step: int) -> Commitment:
    """An adapter's commitment of a step that is left out: the same when the job comes again, unlike any sum's."""
    return session.exact(step, np.frombuffer(b"skipped", np.uint8))


class Row:
    """One step's noise of some stretches of coordinates."""

    def __init__(self, session: Any, step: int, wanted: list[tuple[int, int]], commitment: Any):
        self._parts = []
        self._dtype = session.row(0).dtype
        for start, end in wanted:
            values = session.row(end - start)
            session.fetch_into(step, values, (start, end), commitment=commitment)
            self._parts.append((start, end, values))
        # Now and not before: what failed half way comes again.
        session.used(step, wanted)

    def piece(self, piece: Piece) -> np.ndarray:
        """The values of a piece in its shape: float32, or int32 where the plan is on a grid."""
        if piece.start == piece.end:
            return np.empty(piece.shape, self._dtype)
        for start, end, values in self._parts:
            if start <= piece.start and piece.end <= end:
                return piece.view(values, start)
        raise errors.make("internal", f"coordinates {piece.start}..{piece.end} were not fetched")

    def within(self, start: int, end: int) -> list[tuple[int, np.ndarray]]:
        """What there is of a stretch: first coordinates with values."""
        found = []
        for first, last, values in self._parts:
            low, high = max(start, first), min(end, last)
            if low < high:
                found.append((low, values[low - first : high - first]))
        return found
