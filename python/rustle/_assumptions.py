"""Checks that batches obey the participation that a plan's privacy assumes."""

from __future__ import annotations

import json
import math
from . import errors
from ._batches import Batches
from ._native import Plan, plan_event
from .sampling import CyclicPoisson


def sampling_of(plan: Plan, batches: Batches) -> CyclicPoisson | None:
    """Returns the sampling that a statement may assume of these batches: the ``batches`` of :func:`rustle.report`.

    None where no amplification is known: then the statement accounts for the plan's participation alone, which the
    batches obey.

    Raises:
        rustle.errors.RustleError: The batches break the plan's participation.
    """
    if len(batches) < plan.iterations:
        _refuse(f"batches have {len(batches)} rounds; allowed: at least the plan's {plan.iterations}")
    event = batches.event
    kind, n = event["kind"], plan.iterations
    if kind == "cyclic-poisson":
        _keeps(plan, event["bands"], math.ceil(n / event["bands"]))
        # A statement takes the average rate for that of as many groups as C has bands. More groups are sampled at a
        # higher rate in fewer rounds, which costs more.
        if event.get("batch_cap") or event["bands"] != _bands(plan):
            return None
        return CyclicPoisson(event["sampling_probability"], event["partition"])
    if kind == "poisson-sampled-gaussian":
        _keeps(plan, 1, n)
        return CyclicPoisson(event["sampling_probability"]) if plan.mechanism == "identity" else None
    apart, often = {
        "any-order": lambda: (event["min_sep"], math.ceil(n / event["min_sep"])),
        "balls-in-bins": lambda: (event["batches_per_epoch"], math.ceil(n / event["batches_per_epoch"])),
        "b-min-sep": lambda: (event["min_sep"], math.ceil(n / event["min_sep"])),
        "random-allocation": lambda: (1, event["participations"] * event["epochs"]),
    }.get(kind, lambda: (1, n))()
    _keeps(plan, apart, often)
    return None


def _bands(plan: Plan) -> int | None:
    """Returns the bands of C, or None where it has none."""
    return json.loads(plan_event(plan, None)).get("bands")


def _keeps(plan: Plan, apart: int, often: int) -> None:
    if apart < plan.min_sep and often > 1:
        _refuse(f"a record may return after {apart} steps; allowed by the plan: {plan.min_sep} (min_sep)")
    if often > plan.max_participations:
        _refuse(f"a record may take part {often} times; allowed by the plan: {plan.max_participations}")


def expected_size(batches: Batches, records: int) -> float:
    """Returns the mean number of records in a batch, before any cap."""
    scheme = batches.scheme
    inner = scheme["users"] if scheme["kind"] == "uls" else scheme
    q = inner.get("sampling_probability", 0.0)
    share = {
        "balls-in-bins": lambda: 1 / inner["batches_per_epoch"],
        "fixed-order": lambda: 1 / inner["min_sep"],
        "random-allocation": lambda: inner["participations"] / inner["batches_per_epoch"],
        "b-min-sep": lambda: q / (1 + q * (inner["min_sep"] - 1)),
    }.get(inner["kind"], lambda: q)()
    return records * share


def _refuse(text: str) -> None:
    raise errors.make("batches", text)
