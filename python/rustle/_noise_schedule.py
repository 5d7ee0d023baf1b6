"""Plans whose noise is larger in some steps than in others."""

from __future__ import annotations

import json
import math
import re
from typing import Callable, Sequence

from . import _arguments, errors
from ._native import Plan

_MECHANISM = re.compile(r"^\[mechanism\]\n(?:(?!\[).*\n?)*", re.MULTILINE)


def scale_noise(plan: Plan, factors: Sequence[float] | Callable[[int], float]) -> Plan:
    """Returns the plan whose noise in step t is ``factors[t]`` times as large: a noise schedule, fixed before the run.

    σ stays, and with it the noise where the factor is 1; :func:`calibrate` finds the σ for (ε, δ). The account is that of the
    new plan, a ``band-mf`` one: of a matrix C each column t of which is divided by the factor. A factor below 1 costs more
    privacy in that step, above 1 less.

    Args:
        plan: One of ``identity``, ``band-toeplitz`` without normalised columns, or ``band-mf``; on no grid.
        factors: One for each step, finite and above zero, or a function of the step. Independent of all records.

    Raises:
        rustle.errors.InvalidArgument: Another mechanism, or factors that are not allowed.

    Example::

        run = dict(iterations=1000, epsilon=4, delta=1e-5, epochs=10, min_sep=100, dimension=d)
        flat = rustle.plan(**run, mechanism="identity", float=True)
        falling = rustle.scale_noise(flat, lambda step: 0.999**step)
        rustle.calibrate(falling, epsilon=4, delta=1e-5).save("run/plan.toml")
    """
    plan = _arguments.plan(plan)
    steps = plan.iterations
    found = _arguments.numbers("factors", [factors(step) for step in range(steps)] if callable(factors) else factors)
    if len(found) != steps:
        text = f"there are {len(found)} factors; allowed: {steps}, one for each step of the plan"
        raise errors.make("invalid_argument", text)
    for step, factor in enumerate(found):
        if not (factor > 0 and math.isfinite(factor) and math.isfinite(1 / factor)):
            raise errors.make("invalid_argument", f"the factor of step {step} is {factor}; allowed: finite and above zero")
    if plan.grid is not None:
        raise errors.make("invalid_argument", "the plan is on a grid; allowed: to scale first, then plan.on_grid(…)")
    columns = [[value / factor for value in column] for column, factor in zip(_columns(plan), found, strict=True)]
    table = f'[mechanism]\nname = "band-mf"\ncolumns = {json.dumps(columns)}\n\n'
    return Plan.from_toml(_MECHANISM.sub(lambda _: table, plan.to_toml(), count=1))


def _columns(plan: Plan) -> list[list[float]]:
    """Returns the columns of C from the diagonal down, as a band-mf plan has them."""
    steps = plan.iterations
    if plan.mechanism == "identity":
        return [[1.0]] * steps
    whole = _MECHANISM.search(plan.to_toml())
    assert whole is not None, "every plan has a mechanism"
    values = dict(line.split(" = ", 1) for line in whole.group().splitlines() if " = " in line)
    if plan.mechanism == "band-mf":
        return json.loads(values["columns"])
    if plan.mechanism == "band-toeplitz" and values["column_normalised"] == "false":
        column = json.loads(values["coefficients"])
        return [[c if step + at < steps else 0.0 for at, c in enumerate(column)] for step in range(steps)]
    kind = "normalised band-toeplitz" if plan.mechanism == "band-toeplitz" else plan.mechanism
    text = f"the plan's mechanism is {kind}; allowed: identity, band-toeplitz without normalised columns, band-mf"
    raise errors.make("invalid_argument", text)
