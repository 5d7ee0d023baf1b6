"""Schemes of :class:`rustle.Batches`, by the names and numbers of docs/batches.md."""

from __future__ import annotations

from typing import Any

from . import _arguments

__all__ = [
    "Scheme",
    "b_min_sep",
    "balls_in_bins",
    "contribution_bound",
    "cyclic_poisson",
    "els",
    "fixed_order",
    "poisson",
    "random_allocation",
    "uls",
]

Scheme = dict[str, Any]


def poisson(sampling_probability: float, cap: int | None = None) -> Scheme:
    """Each record joins each round with this probability, on its own."""
    return _scheme("poisson", cap, sampling_probability=sampling_probability)


def cyclic_poisson(
    bands: int, sampling_probability: float, partition: str = "independent", cap: int | None = None
) -> Scheme:
    """``bands`` groups take turns, each sampled; ``sampling_probability`` is the average over all rounds."""
    numbers = {"bands": bands, "sampling_probability": sampling_probability, "partition": partition}
    return _scheme("cyclic-poisson", cap, **numbers)


def balls_in_bins(batches_per_epoch: int, cap: int | None = None) -> Scheme:
    """Each record is in one batch, drawn once, of every epoch."""
    return _scheme("balls-in-bins", cap, batches_per_epoch=batches_per_epoch)


def b_min_sep(
    min_sep: int, sampling_probability: float, warm_start: bool = True, cap: int | None = None
) -> Scheme:
    """Each record joins with a probability, unless it joined one of the ``min_sep`` − 1 rounds before."""
    numbers = {"min_sep": min_sep, "sampling_probability": sampling_probability, "warm_start": warm_start}
    return _scheme("b-min-sep", cap, **numbers)


def random_allocation(batches_per_epoch: int, participations: int, cap: int | None = None) -> Scheme:
    """Each record is in some rounds of each epoch, drawn anew."""
    return _scheme(
        "random-allocation", cap, batches_per_epoch=batches_per_epoch, participations=participations
    )


def fixed_order(min_sep: int) -> Scheme:
    """Shuffled once, cut into ``min_sep`` batches, which take turns. Nothing is amplified."""
    return _scheme("fixed-order", None, min_sep=min_sep)


def contribution_bound(
    batch_size: int, min_sep: int, max_participations: int, records_per_batch: int = 1
) -> Scheme:
    """Greedy batches over :class:`rustle.Owners`, in which no owner exceeds a participation.

    An owner takes part in at most ``max_participations`` rounds, at least ``min_sep`` apart, with ``records_per_batch``
    records in each. Nothing is amplified.
    """
    numbers = {"batch_size": batch_size, "min_sep": min_sep, "max_participations": max_participations}
    return _scheme("contribution-bound", None, **numbers, records_per_batch=records_per_batch)


def els(group_size: int, sampling_probability: float) -> Scheme:
    """Example-level sampling: ``group_size`` records of each user, or owner, chosen once, sampled one by one."""
    return _scheme("els", None, group_size=group_size, sampling_probability=sampling_probability)


def uls(group_size: int, users: Scheme) -> Scheme:
    """User-level sampling: users join by the inner scheme with ``group_size`` records each, drawn anew."""
    return _scheme("uls", None, group_size=group_size, users=users)


def _scheme(kind: str, cap: int | None, **numbers: Any) -> Scheme:
    return {"kind": kind, **_checked(numbers), **({} if cap is None else _checked({"cap": cap}))}


def _checked(numbers: dict[str, Any]) -> dict[str, Any]:
    """Returns a scheme's numbers as they are written, each of its own type."""
    found: dict[str, Any] = {}
    for name, value in numbers.items():
        if name == "sampling_probability":
            found[name] = _arguments.number(name, value)
            if not 0 <= found[name] <= 1:
                raise _arguments.refused(name, value, "0 to 1", "batches")
        elif name == "warm_start":
            found[name] = _arguments.flag(name, value)
        elif name == "partition":
            found[name] = _arguments.one_of(name, value, ("independent", "equal-split"))
        elif name == "users":
            if not isinstance(value, dict) or "kind" not in value:
                raise _arguments.refused(name, value, "a scheme of users, such as rustle.schemes.poisson(0.01)", "batches")
            found[name] = value
        else:
            found[name] = _arguments.whole(name, value, kind="batches")
    return found
