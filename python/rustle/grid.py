"""Sums on the grid of a plan whose noise is exact.

Rows of such a plan are integers, in steps of 2^step of the gradient's own units. ``session.privatize_`` takes a float32 sum
as usual: it rounds the sum, adds integers, and gives float32 back. What floating point does before, in clipping and summing,
is κ, the plan's ``summing_error``, and the job alone can know it. With many contributions a step, sum few of them in
floating point and add integers, which is exact::

    total = rustle.grid.Sum(session.plan)
    for micro_batch in batch:
        total.add(clipped_sum(micro_batch))         # yours: float32, of at most 32 contributions
    noised = session.release_(total.value, step)    # int64
    update(rustle.grid.to_float(noised, session.plan))

See docs/grid.md for what an account takes from all of this.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _arguments, errors
from ._buffers import flat
from ._native import Plan

__all__ = ["Sum", "contribution", "summing_error", "to_float"]

# Beyond it noised sums would not stay exact in float64.
_LARGEST = 2.0**47
_PART = 1 << 14
_UNITS = {"float32": 2.0**-24, "float64": 2.0**-53}


class Sum:
    """A sum of micro-batches, exact in integers.

    Each unit whose privacy is protected must have all of its contributions of a step in **one** call of :meth:`add`: the
    account holds for one rounding of them.

    Args:
        plan: A plan on a grid with the rounding "nearest", and with a dimension.

    Raises:
        rustle.errors.InvalidArgument: A plan without a grid, or with another rounding.
    """

    def __init__(self, plan: Plan):
        grid = _grid_of(plan)
        if grid["rounding"] != "nearest":
            better = {
                "dithered": "one float32 sum, to session.privatize_, which dithers it",
                "contributions": "a sum of what rustle.grid.contribution returns",
            }
            text = f"the plan's grid.rounding is {grid['rounding']}; allowed: nearest, or {better[grid['rounding']]}"
            raise errors.make("invalid_argument", text)
        self._step = 2.0 ** grid["step"]
        self._value = np.zeros(plan.dimension, np.int64)

    def add(self, micro_batch: Any) -> None:
        """Rounds a sum of clipped contributions to the grid and adds it.

        Args:
            micro_batch: float32 or float64, as many values as the plan's dimension; sums in fewer bits can't be accounted
                for.

        Raises:
            rustle.errors.InvalidArgument: Another type or length, or a value that is not finite or beyond 2⁴⁷ steps. The sum
                is unchanged.
        """
        values = _floats(micro_batch, self._value.size)
        self._value += _rounded(values, self._step)

    @property
    def value(self) -> np.ndarray:
        """The sum, int64 of shape (dimension,): for ``session.release_``, which adds noise to it in place."""
        return self._value

    def clear(self) -> None:
        """Begins the next step's sum at 0, in memory of its own."""
        self._value = np.zeros_like(self._value)


def contribution(gradient: Any, plan: Plan) -> np.ndarray:
    """One contribution in integers: clipped, rounded, and of a norm that is checked exactly.

    Sums of these are exact, so a plan with the rounding "contributions" needs no ``summing_error``.

    Args:
        gradient: The gradient of one unit, float32 or float64, as many values as the plan's dimension.
        plan: A plan on a grid with the rounding "contributions".

    Returns:
        int64 of shape (dimension,) with norm at most clip_norm, in steps.

    Raises:
        rustle.errors.InvalidArgument: Another plan, type or length, or a value that is not finite.
    """
    grid = _grid_of(plan)
    if grid["rounding"] != "contributions":
        text = f"the plan's grid.rounding is {grid['rounding']}; allowed: contributions"
        raise errors.make("invalid_argument", text)
    values = _floats(gradient, plan.dimension).astype(np.float64)
    if not np.isfinite(values).all():
        raise errors.make("invalid_argument", "a value of the gradient is not finite; allowed: finite ones")
    most = plan.clip_norm / 2.0 ** grid["step"]
    # Rounding moves a vector by √d/2 at most. That is little of it: plans have √d·γ ≤ 0.02 ζ, or are refused.
    allowed = most - math.sqrt(values.size) / 2
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(values)) / 2.0 ** grid["step"]
    if not math.isfinite(norm):
        text = "the gradient's squares are beyond float64; allowed: values below 1e150"
        raise errors.make("invalid_argument", text)
    shrink = min(1.0, allowed / norm) if norm > 0 else 1.0
    rounded = np.rint(values * shrink / 2.0 ** grid["step"]).astype(np.int64)
    # In whole numbers: floating point has decided nothing that the account rests on.
    if _squares(rounded) > math.floor(most) ** 2:
        return np.zeros_like(rounded)
    return rounded


def to_float(noised: Any, plan: Plan, *, divide_by: float = 1.0) -> np.ndarray:
    """Integers on the plan's grid as float32, divided by ``divide_by``.

    The result is a function of integers that are released, so it costs nothing more.

    Args:
        noised: What ``session.release_`` returned: int64.
        plan: The session's plan.
        divide_by: A public number, such as the expected batch size.
    """
    grid = _grid_of(plan)
    values = flat(noised, dtype="int64", writable=False)
    divide_by = _arguments.above_zero("divide_by", divide_by)
    return (values * 2.0 ** grid["step"] / divide_by).astype(np.float32)


def summing_error(
    records: int,
    dimension: int,
    *,
    dtype: str = "float32",
    roundings: int | None = None,
    norm_dtype: str = "float32",
) -> float:
    """κ: what clipping and summing in floating point add to a contribution's norm at most, relative to the clip norm.

    For sums whose clipped contributions each depend on one unit alone. With m roundings of relative size u on the way of a
    contribution into a sum of B, two neighbouring sums differ by 2muB/(1 − mu) more than in real numbers. Squares of d
    coordinates, added in any order with roundings of relative size v, make a norm too small by e^(dv/2) at most: with norms
    that are accumulated in float64 it is next to nothing, and ``norm_dtype`` is to say so.

    Args:
        records: B, the most contributions that are summed in floating point before a rounding to the grid.
        dimension: Coordinates of the flattened vector.
        dtype: The type that they are summed in: float32 or float64. Sums in float16 or bfloat16 can't be accounted for, and
            neither can products of matrices in TF32 or under autocast, which are float32 by name.
        roundings: m; by default ``records``, which holds for every order of summing, with one division by a number at the
            end. Sums that are known to be pairwise have ⌈log₂ B⌉ + 1.
        norm_dtype: The type that the squares of a contribution are added in for its norm: float32, as most programs do, or
            float64, as :func:`rustle.torch.clipped_sum`, :mod:`rustle.opacus`, :mod:`rustle.user_level`, :mod:`rustle.federated`
            and :mod:`rustle.keras` do. In float32 the order alone decides how much is lost, so all of dv/2 counts: 3 % for a
            million coordinates.

    Raises:
        rustle.errors.InvalidArgument: Another type, a number below 1, or so many that nothing is left of the bits.

    Example::

        # Below 1.3e-4 for clipped sums whose norms are accumulated in float64.
        kappa = rustle.grid.summing_error(records=32, dimension=plan.dimension, norm_dtype="float64")
        plan = rustle.calibrate(plan.on_grid(kappa), epsilon=4, delta=1e-5)
    """
    for name, given in [("dtype", dtype), ("norm_dtype", norm_dtype)]:
        if not isinstance(given, str) or given not in _UNITS:
            text = f"{name} is {_arguments.shown(given)}; allowed: float32, float64. Sums in fewer bits can't be accounted for"
            raise errors.make("invalid_argument", text)
    roundings = records if roundings is None else roundings
    for name, number in [("records", records), ("dimension", dimension), ("roundings", roundings)]:
        if not 1 <= _arguments.whole(name, number) <= 2**40:
            raise errors.make("invalid_argument", f"{name} is {number}; allowed: 1 to 2^40")
    unit = _UNITS[dtype]
    if roundings * unit >= 0.5:
        text = f"records is {records}; allowed: micro-batches of fewer, whose integers are added ({dtype} keeps no bits)"
        raise errors.make("invalid_argument", text)
    # What a norm is too small by, and the roundings of its root, of the scale, and of the scaled contribution.
    short = (dimension / 2 + 8) * _UNITS[norm_dtype]
    if short >= 0.5:
        text = (
            f"dimension is {dimension}, whose norms {norm_dtype} keeps no bits of; allowed: norms accumulated in float64 "
            "(norm_dtype), or plans with the rounding contributions"
        )
        raise errors.make("invalid_argument", text)
    clipping = math.expm1(short) + 8 * unit
    return clipping + 2 * roundings * unit * records / (1 - roundings * unit) * (1 + clipping)


def _grid_of(plan: Plan) -> dict[str, Any]:
    grid = _arguments.plan(plan).grid
    if grid is None:
        text = "the plan has no grid; allowed: one of plan.on_grid, or of rustle.plan with a summing_error"
        raise errors.make("invalid_argument", text)
    return grid


def _floats(values: Any, length: int) -> np.ndarray:
    wide = str(getattr(values, "dtype", "")).removeprefix("torch.") == "float64"
    found = flat(values, dtype="float64" if wide else "float32", writable=False)
    if found.size != length:
        text = f"the buffer holds {found.size} values; allowed: {length}, the plan's dimension"
        raise errors.make("buffer", text)
    return found


def _rounded(values: np.ndarray, step: float) -> np.ndarray:
    """Returns the nearest integers of values / step, which is exact in float64."""
    found = np.rint(values.astype(np.float64) / step)
    if not (np.abs(found) <= _LARGEST).all():
        bad = values[~(np.abs(found) <= _LARGEST)][0]
        text = f"a value of the sum is {bad}; allowed: finite values of absolute value up to {_LARGEST * step:g}"
        raise errors.make("invalid_argument", text)
    return found.astype(np.int64)


def _squares(values: np.ndarray) -> int:
    """Returns Σv², exactly: int64 holds every sum of a part."""
    total = 0
    for start in range(0, values.size, _PART):
        part = np.abs(values[start : start + _PART])
        low, high = part & 0xFFFFF, part >> 20
        total += int(np.dot(low, low)) + (int(np.dot(low, high)) << 21) + (int(np.dot(high, high)) << 40)
    return total


def added(sums: np.ndarray, noise: np.ndarray, plan: Plan, divide_by: float) -> np.ndarray:
    """The float32 of a float32 sum that is rounded to the nearest step and has a row of integers added: what
    ``session.privatize_`` makes, for adapters that hold the row themselves."""
    step = 2.0 ** _grid_of(plan)["step"]
    by = float(np.float32(divide_by))
    return ((np.rint(sums.astype(np.float64) * by / step) + noise) * step / by).astype(np.float32)


def check_addable(plan: Plan, what: str) -> None:
    """Refuses a plan whose float32 sums ``what`` can't round: it holds rows itself and has no dither."""
    grid = _grid_of(plan)
    if grid["rounding"] != "nearest":
        text = (
            f"the plan's grid.rounding is {grid['rounding']}; allowed for {what}: nearest "
            f"(plan.on_grid(summing_error, rounding='nearest')), or session.privatize_ on the flattened sum, or float=True"
        )
        raise errors.make("invalid_argument", text)
