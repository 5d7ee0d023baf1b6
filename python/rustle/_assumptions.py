"""Checks that batches obey the participation that a plan's privacy assumes."""

from __future__ import annotations

import json
import math
from typing import Any

from . import errors
from ._batches import Batches
from ._native import Plan, plan_event
from ._session import Session
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
        if event["account"].startswith("any-order") or event["bands"] != _bands(plan):
            return None
        return CyclicPoisson(event["sampling_probability"], event["partition"], *_cap(event))
    if kind in ("poisson-sampled-gaussian", "truncated-poisson-gaussian"):
        _keeps(plan, 1, n)
        amplified = CyclicPoisson(event["sampling_probability"], "independent", *_cap(event))
        return amplified if plan.mechanism == "identity" else None
    if event["unit"] == "owner" and event.get("records_per_batch", 1) > 1:
        text = f"an owner may have {event['records_per_batch']} records in a batch; allowed by the plan: 1"
        _refuse(f"{text}; `rustle account plan --records-per-batch` states what more cost")
    apart, often = {
        "any-order": lambda: (
            event["min_sep"],
            min(event["max_participations"], math.ceil(n / event["min_sep"])),
        ),
        "balls-in-bins": lambda: (event["batches_per_epoch"], math.ceil(n / event["batches_per_epoch"])),
        "b-min-sep": lambda: (event["min_sep"], math.ceil(n / event["min_sep"])),
        "random-allocation": lambda: (1, event["participations"] * event["epochs"]),
    }.get(kind, lambda: (1, n))()
    _keeps(plan, apart, often)
    return None


def declare(session: Session, batches: Batches, sampling: CyclicPoisson | None, *, public_divisor: bool) -> None:
    """Has the session refuse the relations that its batches, or what their sums are divided by, do not keep.

    ``sampling``: of :func:`sampling_of`. ``public_divisor``: whether the divisor is a constant that does not depend on
    the data. Otherwise the scale of what is released reveals how many records there are.
    """
    event = batches.event
    amplified = sampling is not None or event["kind"] == "user-level"
    kept = event["neighbouring"] if amplified else ["zero-out", "replace", "add-remove"]
    for relation in ("zero-out", "add-remove", "replace"):
        if relation not in kept:
            session.refuse(relation, f"these batches have an account for {', '.join(kept)}")
    if not amplified and event["public_population"]:
        session.refuse("add-remove", "these batches depend on how many records there are")
    if not public_divisor:
        session.refuse("add-remove", DIVISOR)


#: Why adding and removing is refused where no divisor was chosen.
DIVISOR = "sums are divided by a number that depends on how many records there are; pass divide_by=, a public constant"


def _cap(event: dict[str, Any]) -> tuple[int, int] | tuple[()]:
    """Returns the cap and the public number of records, where there is a cap."""
    return (event["batch_cap"], event["dataset_size"]) if event.get("batch_cap") else ()


def _bands(plan: Plan) -> int | None:
    """Returns the bands of C, or None where it has none."""
    return json.loads(plan_event(plan, None)).get("bands")


def _keeps(plan: Plan, apart: int, often: int) -> None:
    if apart < plan.min_sep and often > 1:
        _refuse(f"a record may return after {apart} steps; allowed by the plan: {plan.min_sep} (min_sep)")
    if often > plan.max_participations:
        _refuse(f"a record may take part {often} times; allowed by the plan: {plan.max_participations}")


def expected_size(batches: Batches, records: int) -> float:
    """Returns the mean number of records in a batch, before any cap; the most where owners are bounded."""
    scheme = batches.scheme
    inner = scheme["users"] if scheme["kind"] == "uls" else scheme
    if inner["kind"] == "contribution-bound":
        return float(inner["batch_size"])
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
