"""Events of dp_accounting (Google's ``dp-accounting``), read and written.

A ``DpEvent`` describes a mechanism as an event of Rustle does, and a ledger of ``dp_accounting`` is one that is composed of
others. What has no counterpart on the other side is refused by name.
"""

from __future__ import annotations

import math
from typing import Any, Callable

from . import errors

__all__ = ["Event", "from_dp_event", "to_dp_event"]

Event = dict[str, Any]

_NEIGHBOURING = ("zero-out", "add-remove", "replace")


def from_dp_event(event: Any, *, neighbouring: str = "zero-out") -> Event:
    """Returns the event of a ``DpEvent``, of its named tuple (``DpEvent.to_named_tuple``), or of a ledger.

    ``neighbouring``: the relation of the accountant that the event is meant for: zero-out (its ``REPLACE_SPECIAL``),
    add-remove (``ADD_OR_REMOVE_ONE``), replace (``REPLACE_ONE``). Noise multipliers of ``REPLACE_ONE`` are in units of the
    most that a replacement moves a sum by, twice the clip norm; those that are returned are in units of the clip norm.
    """
    if neighbouring not in _NEIGHBOURING:
        raise _refused("neighbouring", repr(neighbouring), ", ".join(_NEIGHBOURING))
    return _read(event, 2.0 if neighbouring == "replace" else 1.0)


def to_dp_event(event: Event, *, neighbouring: str = "zero-out") -> Any:
    """Returns the ``DpEvent`` of an event, for an accountant under ``neighbouring``. Needs the package dp-accounting."""
    if neighbouring not in _NEIGHBOURING:
        raise _refused("neighbouring", repr(neighbouring), ", ".join(_NEIGHBOURING))
    return _write(event, 2.0 if neighbouring == "replace" else 1.0)


def _read(event: Any, factor: float) -> Event:
    name = _name(event)
    if name in _SAMPLED and factor != 1.0:
        raise _refused("neighbouring", "'replace'", f"zero-out or add-remove for {name}")
    if name == "SampledWithoutReplacementDpEvent" and factor == 1.0:
        raise _refused("neighbouring", "not 'replace'", f"'replace' for {name}, the relation that it is defined for")
    if name not in _READERS:
        raise _refused("event", name, ", ".join(sorted(_READERS)))
    return _READERS[name](event, factor)


def _name(event: Any) -> str:
    name = getattr(event, "class_name", None) or type(event).__name__
    return name.decode() if isinstance(name, bytes) else str(name)


def _gaussian(event: Any, factor: float) -> Event:
    return {"kind": "gaussian", "noise_multiplier": factor * event.noise_multiplier}


def _self_composed(event: Any, factor: float) -> Event:
    return {"kind": "self-composed", "event": _read(event.event, factor), "count": int(event.count)}


def _composed(event: Any, factor: float) -> Event:
    return {"kind": "composed", "events": [_read(one, factor) for one in event.events]}


def _poisson(event: Any, factor: float) -> Event:
    q = float(event.sampling_probability)
    return {
        "kind": "poisson-sampled-gaussian",
        "noise_multiplier": _one_sigma(event.event, "PoissonSampledDpEvent"),
        "sampling_probability": q,
    }


def _without_replacement(event: Any, factor: float) -> Event:
    return {
        "kind": "without-replacement-gaussian",
        "noise_multiplier": factor * _one_sigma(event.event, "SampledWithoutReplacementDpEvent"),
        "dataset_size": int(event.source_dataset_size),
        "batch_size": int(event.sample_size),
    }


def _one_sigma(event: Any, outer: str) -> float:
    """The noise multiplier of Gaussian sums that one batch is released by, together."""
    precision = _precision(event, outer)
    return 1.0 / math.sqrt(precision) if precision > 0.0 else math.inf


def _precision(event: Any, outer: str) -> float:
    name = _name(event)
    if name == "GaussianDpEvent":
        return 1.0 / event.noise_multiplier**2 if event.noise_multiplier > 0.0 else math.inf
    if name == "SelfComposedDpEvent":
        return event.count * _precision(event.event, outer)
    if name == "ComposedDpEvent":
        return math.fsum(_precision(one, outer) for one in event.events)
    raise _refused("event", f"{name} within {outer}", "GaussianDpEvent, alone or composed")


def _laplace(event: Any, factor: float) -> Event:
    return {"kind": "laplace", "noise_multiplier": factor * event.noise_multiplier}


def _discrete_laplace(event: Any, factor: float) -> Event:
    moved = int(event.sensitivity)
    if moved % int(factor):
        raise _refused("sensitivity", str(moved), "even under replace, where it is of a replacement")
    a = float(event.noise_parameter)
    return {"kind": "discrete-laplace", "noise_parameter": a, "sensitivity": moved // int(factor)}


def _tree(event: Any, factor: float) -> Event:
    counts = event.step_counts
    counts = [int(counts)] if isinstance(counts, int) else [int(count) for count in counts]
    return {
        "kind": "tree",
        "noise_multiplier": factor * event.noise_multiplier,
        "iterations": sum(counts),
        "min_sep": max(1, sum(counts)),
        "max_participations": 1,
        "restarts": [sum(counts[:end]) for end in range(1, len(counts))],
    }


def _repeat_and_select(event: Any, factor: float) -> Event:
    read = {"kind": "repeat-and-select", "event": _read(event.event, factor), "mean": float(event.mean)}
    return read if math.isinf(event.shape) else {**read, "shape": float(event.shape)}


def _mixture(event: Any, factor: float) -> Event:
    return {
        "kind": "mixture-of-gaussians",
        "noise_multiplier": float(event.standard_deviation),
        "sensitivities": [float(one) for one in event.sensitivities],
        "probabilities": [float(one) for one in event.sampling_probs],
    }


def _zcdp(event: Any, factor: float) -> Event:
    if event.xi:
        raise _refused("xi", str(event.xi), "0")
    return {"kind": "z-cdp", "rho": event.rho / factor**2}


def _truncated(event: Any, factor: float) -> Event:
    return {
        "kind": "truncated-poisson-gaussian",
        "noise_multiplier": float(event.noise_multiplier),
        "sampling_probability": float(event.sampling_probability),
        "dataset_size": int(event.dataset_size),
        "batch_cap": int(event.truncated_batch_size),
    }


_READERS: dict[str, Callable[[Any, float], Event]] = {
    "NoOpDpEvent": lambda event, factor: {"kind": "composed", "events": []},
    "GaussianDpEvent": _gaussian,
    "LaplaceDpEvent": _laplace,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "SelfComposedDpEvent": _self_composed,
    "ComposedDpEvent": _composed,
    "PoissonSampledDpEvent": _poisson,
    "SampledWithoutReplacementDpEvent": _without_replacement,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "RepeatAndSelectDpEvent": _repeat_and_select,
    "MixtureOfGaussiansDpEvent": _mixture,
    "ZCDpEvent": _zcdp,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
}

# What samples each record on its own: its pair under replacement is not that of another noise multiplier.
_SAMPLED = ("PoissonSampledDpEvent", "MixtureOfGaussiansDpEvent", "TruncatedSubsampledGaussianDpEvent")


def _write(event: Event, factor: float) -> Any:
    from dp_accounting import dp_event as peer

    kind = event.get("kind")
    sigma = event.get("noise_multiplier")
    if kind == "gaussian":
        return peer.GaussianDpEvent(sigma / factor)
    if kind == "laplace":
        return peer.LaplaceDpEvent(sigma / factor)
    if kind == "discrete-laplace":
        return peer.DiscreteLaplaceDpEvent(event["noise_parameter"], event["sensitivity"] * int(factor))
    if kind == "composed":
        parts = [_write(one, factor) for one in event["events"]]
        return peer.ComposedDpEvent(parts) if parts else peer.NoOpDpEvent()
    if kind == "self-composed":
        return peer.SelfComposedDpEvent(_write(event["event"], factor), event["count"])
    if kind == "z-cdp":
        return peer.ZCDpEvent(event["rho"] * factor**2)
    if kind == "repeat-and-select":
        shape = event.get("shape")
        run = _write(event["event"], factor)
        return peer.RepeatAndSelectDpEvent(run, event["mean"], math.inf if shape is None else shape)
    if kind == "without-replacement-gaussian" and factor == 2.0:
        one = peer.GaussianDpEvent(sigma / factor)
        return peer.SampledWithoutReplacementDpEvent(event["dataset_size"], event["batch_size"], one)
    if kind == "tree" and event["max_participations"] == 1 and not event.get("completion"):
        ends = [*event.get("restarts", []), event["iterations"]]
        counts = [end - start for start, end in zip([0, *ends], ends)]
        return peer.SingleEpochTreeAggregationDpEvent(sigma / factor, counts)
    if kind == "matrix-mechanism":
        return _write_run(event, factor, peer)
    if factor == 1.0 and kind == "poisson-sampled-gaussian":
        return peer.PoissonSampledDpEvent(event["sampling_probability"], peer.GaussianDpEvent(sigma))
    if factor == 1.0 and kind == "mixture-of-gaussians":
        return peer.MixtureOfGaussiansDpEvent(sigma, event["sensitivities"], event["probabilities"])
    if factor == 1.0 and kind == "truncated-poisson-gaussian":
        return peer.TruncatedSubsampledGaussianDpEvent(
            event["dataset_size"], event["sampling_probability"], event["batch_cap"], sigma
        )
    under = "replace" if factor == 2.0 else "zero-out and add-remove"
    raise _refused("event", f"{kind!r}", f"an event that dp_accounting describes under {under}")


def _write_run(event: Event, factor: float, peer: Any) -> Any:
    """A run with correlated noise, as the mechanism that costs the same."""
    failure = event.get("failure_probability", 0.0)
    if failure:
        raise _refused("failure_probability", repr(failure), "0: the package knows no run that may leave its mechanism")
    sigma = event["noise_multiplier"]
    sampling = event.get("sampling", {"kind": "any-order"})
    if sampling["kind"] == "any-order":
        return peer.GaussianDpEvent(sigma / event["sensitivity"] / factor)
    if factor != 1.0:
        raise _refused("neighbouring", "'replace'", "zero-out or add-remove for cyclic Poisson sampling")
    if sampling.get("partition") == "equal-split":
        raise _refused("partition", "'equal-split'", "'independent': the package knows no relation of groups of one size")
    bands, cap = event["bands"], sampling.get("cap")
    if cap is not None:
        if bands != 1:
            raise _refused("cap", f"{cap['batch_cap']} beside {bands} bands", "a cap beside one band, or none")
        one = peer.TruncatedSubsampledGaussianDpEvent(
            cap["dataset_size"], sampling["sampling_probability"], cap["batch_cap"], sigma / event["largest_column_norm"]
        )
        return peer.SelfComposedDpEvent(one, event["iterations"])
    one = peer.GaussianDpEvent(sigma / event["largest_column_norm"])
    sampled = peer.PoissonSampledDpEvent(min(1.0, bands * sampling["sampling_probability"]), one)
    return peer.SelfComposedDpEvent(sampled, -(-event["iterations"] // bands))


def _refused(what: str, value: str, allowed: str) -> errors.RustleError:
    return errors.make("invalid_argument", f"{what} is {value}; allowed: {allowed}")
