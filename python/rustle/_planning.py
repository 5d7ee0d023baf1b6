"""Plans, and the privacy that they promise."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Callable, Sequence

import numpy as np

from . import _arguments, _grid_choice, _native, errors
from ._deprecated import warn_renamed
from ._native import Plan
from .sampling import BallsInBins, BMinSep, CyclicPoisson, Sampling

Parameters = Sequence[tuple[str, Sequence[int]]]


def plan(
    *,
    iterations: int,
    epsilon: float,
    delta: float,
    dimension: int | None = None,
    parameters: Parameters | None = None,
    min_sep: int = 1,
    max_participations: int | None = None,
    epochs: int | None = None,
    clip_norm: float = 1.0,
    mechanism: str | None = None,
    size: int | None = None,
    column_norms: str | None = None,
    objective: str = "rms",
    sampling_probability: float | None = None,
    workers: int = 1,
    memory_per_worker: int | None = None,
    within: float = 0.05,
    summing_error: float | None = None,
    rounding: str | None = None,
    batch_size: int | None = None,
    norm_dtype: str = "float32",
    float: bool = False,
) -> Plan:
    """The plan with the least error at (ε, δ), or the best one of a mechanism, with noise on a grid (:mod:`rustle.grid`).

    ``iterations``: steps n. A user takes part at most ``max_participations`` times, at least ``min_sep`` steps apart;
    ``epochs``: the same number, where records are in one batch of each epoch. One of them must be given: noise for one
    participation would be several times too small for many. ``dimension`` or ``parameters`` (names with shapes): the flattened vector. ``clip_norm``: ζ, in the gradient's own
    units. ``mechanism``: blt, band-mf, band-toeplitz, identity, …; ``size``: its bands or buffers.
    ``column_norms``: norms of C's columns, for band-mf, band-toeplitz and blt: ``"by-epoch"``, one for each epoch of min_sep steps,
    which makes the rms error smaller at the same sensitivity, or ``"equal"``, as published; without, by-epoch for band-mf, else
    equal. Those of a blt are by epoch with ``float=True`` alone. Without ``mechanism`` both are weighed.
    ``sampling_probability``: weighs amplified mechanisms too, which then need batches sampled so. ``within``: the excess
    over the least error for which less state is preferred; 0.05 is 5 %.

    On a grid ε holds bit for bit, and the account depends on how the job sums: it needs one of ``batch_size``, ``summing_error``
    and ``rounding="contributions"``, and the dimension; σ is raised by what the grid costs. ``batch_size``: the most clipped
    gradients that are added in float32 before their sum is rounded to the grid, and ``norm_dtype`` the type that their norms are
    accumulated in: :func:`rustle.grid.summing_error` of them is the ``summing_error``, as of :meth:`Plan.on_grid`. ``float``: rows
    of floating-point numbers instead: ε is then that of real ones, and does not hold against someone who knows candidate sums
    and reads every bit.
    """
    often = _participations(max_participations, epochs)
    run = _run(iterations, min_sep, often, clip_norm, dimension, parameters, objective)
    grid = _grid_choice.chosen(dimension, parameters, batch_size, summing_error, rounding, norm_dtype, float)
    promise, search = _promise(epsilon, delta), _search(sampling_probability, workers, memory_per_worker, within)
    one = _one_mechanism(mechanism, size, column_norms, grid is not None)
    found = _native.optimise(run, promise, *one) if one else _best_of_all(run, promise, *search, grid is not None)
    if grid is None:
        return found
    if sampling_probability is not None and mechanism is None:
        return _native.keep_on_grid(found, *grid)
    return calibrate(found.on_grid(*grid), epsilon=epsilon, delta=delta)


def _one_mechanism(
    mechanism: str | None, size: int | None, column_norms: str | None, on_grid: bool
) -> tuple[str, int | None, str | None] | None:
    """The mechanism to plan for, its size and the norms of its columns; None where all are to be compared."""
    if size is not None:
        size = _arguments.whole("size", size)
    if column_norms is not None:
        column_norms = _arguments.one_of("column_norms", column_norms, ("by-epoch", "equal"))
    if mechanism is None:
        for name, value in (("size", size), ("column_norms", column_norms)):
            if value is not None:
                raise _arguments.refused(name, value, "none without a mechanism")
        return None
    mechanism = _arguments.text("mechanism", mechanism)
    if on_grid and mechanism == "blt" and column_norms == "by-epoch":
        allowed = "equal, or float=True, as the scaled columns of a blt have no rows on a grid; or mechanism=\"band-toeplitz\""
        raise _arguments.refused("column_norms", column_norms, f"for blt, {allowed}")
    return mechanism, size, column_norms


def _best_of_all(
    run: dict[str, Any],
    promise: tuple[float, float],
    sampling_probability: float | None,
    workers: tuple[int, int | None],
    within: float,
    on_grid: bool,
) -> Plan:
    answer, plans = _native.suggest(run, promise, sampling_probability, workers, within, on_grid)
    chosen = json.loads(answer)["recommended"]
    if chosen is None:
        raise errors.make(
            "invalid_argument", f"nothing fits; allowed: memory_per_worker above {workers[1]}"
        )
    return plans[chosen]


def suggest(
    *,
    iterations: int,
    epsilon: float,
    delta: float,
    dimension: int | None = None,
    parameters: Parameters | None = None,
    min_sep: int = 1,
    max_participations: int | None = None,
    epochs: int | None = None,
    clip_norm: float = 1.0,
    objective: str = "rms",
    sampling_probability: float | None = None,
    workers: int = 1,
    memory_per_worker: int | None = None,
    within: float = 0.05,
    summing_error: float | None = None,
    rounding: str | None = None,
    batch_size: int | None = None,
    norm_dtype: str = "float32",
    float: bool = False,
) -> list[dict[str, Any]]:
    """Every mechanism that could serve, the least error first; arguments as of :func:`plan`.

    ``error`` is that of the released sums in units of the clip norm, with real numbers, to which a grid adds what it raises σ
    by; ``plan`` is the plan to run; ``recommended`` is true for one. ``column_norms`` is ``"by-epoch"`` where the norms of C's
    columns differ from one epoch to the next, as with several participations and ``objective="rms"`` they do for bands and,
    with ``float=True``, for BLTs. Mechanisms that no grid has a place for are left out.
    """
    often = _participations(max_participations, epochs)
    run = _run(iterations, min_sep, often, clip_norm, dimension, parameters, objective)
    grid = _grid_choice.chosen(dimension, parameters, batch_size, summing_error, rounding, norm_dtype, float)
    search = _search(sampling_probability, workers, memory_per_worker, within)
    answer, plans = _native.suggest(run, _promise(epsilon, delta), *search, grid is not None)
    found = json.loads(answer)
    entries: list[dict[str, Any]] = []
    refused: errors.RustleError | None = None
    for index, (entry, plan) in enumerate(zip(found["entries"], plans, strict=True)):
        try:
            placed = plan if grid is None else _native.keep_on_grid(plan, *grid)
        except errors.PlanError as error:
            refused = error
            continue
        entries.append({**entry, "plan": placed, "recommended": index == found["recommended"]})
    if refused is not None and not entries:
        raise refused
    if not any(entry["recommended"] for entry in entries):
        for entry in [entry for entry in entries if entry["fits"]][:1]:
            entry["recommended"] = True
    return entries


def calibrate(plan: Plan, *, epsilon: float, delta: float) -> Plan:
    """The plan with the smallest noise multiplier that keeps (ε, δ), batches being formed anyhow.

    Of a plan on a grid the step is chosen anew, and the noise multiplier is higher by what the grid costs.
    """
    return _native.calibrate(_arguments.plan(plan), *_promise(epsilon, delta))


def epsilon(event: dict[str, Any], *, delta: float, neighbouring: str = "zero-out") -> float:
    """ε of an event at δ, as ``rustle account event`` gives it. ``neighbouring``: zero-out, add-remove, replace."""
    allowed = "a dict of an event, as rustle.event and Batches.event give it"
    if not isinstance(event, dict) or "kind" not in event:
        raise _arguments.refused("event", event, allowed)
    try:
        text = json.dumps(event)
    except (TypeError, ValueError):
        raise _arguments.refused("event", event, f"{allowed}, of numbers, texts and lists") from None
    relation = _arguments.text("neighbouring", neighbouring, "zero-out, add-remove, replace")
    return _native.event_epsilon(text, _arguments.number("delta", delta), relation)


def event(plan: Plan, *, sampling_probability: float | None = None) -> dict[str, Any]:
    """A plan's run as an event: batches in any order, or cyclic Poisson at an average rate."""
    if sampling_probability is not None:
        sampling_probability = _arguments.number("sampling_probability", sampling_probability)
    return json.loads(_native.plan_event(_arguments.plan(plan), sampling_probability))


def report(
    plan: Plan,
    path: str | os.PathLike[str] | None = None,
    *,
    delta: float | list[float] = 1e-6,
    neighbouring: str = "zero-out",
    batches: Any = None,
    format: str | None = None,
    unit: str = "user",
) -> str:
    """Returns the statement of what a plan promises, and writes it to ``path`` if there is one.

    ``batches``: None for any order within the plan's participation, or the sampling that the batches follow: one of
    :mod:`rustle.sampling`. ``neighbouring``: zero-out, add-remove, replace; add-remove holds only where sums are divided
    by public constants, and neither batches nor anything released depends on how many records there are. ``format``: markdown, html or json; by default the one that the path's ending names.
    ``unit``: whose contribution of each round is clipped: user, example, device or owner.
    """
    return statement(_arguments.plan(plan), None, path, delta, neighbouring, batches, format, unit)


class Statement(str):
    """A statement's text, which notebooks show as Markdown or HTML."""

    #: markdown, html or json.
    format: str

    def _repr_markdown_(self) -> str | None:
        return str(self) if self.format == "markdown" else None

    def _repr_html_(self) -> str | None:
        return str(self) if self.format == "html" else None


def statement(
    plan: Plan | None,
    job: str | None,
    path: str | os.PathLike[str] | None,
    delta: float | list[float],
    neighbouring: str,
    batches: Any,
    format: str | None,
    unit: str,
    noted: Callable[[str, str], str] = lambda text, _: text,
) -> str:
    path = None if path is None else _arguments.path("path", path)
    ending = os.path.splitext(path)[1].lower() if path is not None else ""
    format = format or {".html": "html", ".htm": "html", ".json": "json"}.get(ending, "markdown")
    listed = isinstance(delta, Iterable) and not isinstance(delta, str) and np.ndim(delta) > 0
    deltas = _arguments.numbers("delta", delta) if listed else [_arguments.number("delta", delta)]
    format = _arguments.text("format", format, "markdown, html, json")
    neighbouring = _arguments.text("neighbouring", neighbouring, "zero-out, add-remove, replace")
    unit = _arguments.text("unit", unit, "user, example, device, owner")
    made = _native.statement(plan, job, deltas, (neighbouring, unit), sampling_arguments(batches), format)
    text = Statement(noted(made, format))
    text.format = format
    if path is not None:
        _arguments.write(path, text)
    return text


def sampling_arguments(batches: Any) -> tuple[Any, ...] | None:
    """Returns the values of a sampling as the native module takes them."""
    if batches is None:
        return None
    if isinstance(batches, Sampling):
        return batches.arguments()
    names = {"cyclic-poisson": CyclicPoisson, "balls-in-bins": BallsInBins, "b-min-sep": BMinSep}
    kind, *values = batches if isinstance(batches, (tuple, list)) and batches else [None]
    # The tuples know no caps.
    lengths = {name: len([field for field in fields(of) if field.default is not None]) for name, of in names.items()}
    if kind not in names or len(values) != lengths[kind]:
        text = f"batches is {batches!r}; allowed: None, or CyclicPoisson, BallsInBins or BMinSep of rustle.sampling"
        raise errors.make("invalid_argument", text)
    warn_renamed(f"batches=({kind!r}, …)", f"rustle.sampling.{names[kind].__name__}")
    return names[kind](*values).arguments()


def _participations(max_participations: int | None, epochs: int | None) -> int:
    if (max_participations is None) == (epochs is None):
        given = "neither is given" if epochs is None else "both are given"
        text = (
            f"{given}; allowed: max_participations, how often one user's records take part over the whole run, or "
            "epochs, where that is once an epoch"
        )
        raise errors.make("invalid_argument", text)
    if max_participations is None:
        return _arguments.whole("epochs", epochs)
    return _arguments.whole("max_participations", max_participations)


def _promise(epsilon: float, delta: float) -> tuple[float, float]:
    return _arguments.number("epsilon", epsilon), _arguments.number("delta", delta)


def _search(
    sampling_probability: float | None, workers: int, memory_per_worker: int | None, within: float
) -> tuple[float | None, tuple[int, int | None], float]:
    if sampling_probability is not None:
        sampling_probability = _arguments.number("sampling_probability", sampling_probability)
    if memory_per_worker is not None:
        memory_per_worker = _arguments.whole("memory_per_worker", memory_per_worker)
    sharing = (_arguments.whole("workers", workers), memory_per_worker)
    return sampling_probability, sharing, _arguments.number("within", within)


def _run(
    iterations: int,
    min_sep: int,
    max_participations: int,
    clip_norm: float,
    dimension: int | None,
    parameters: Parameters | None,
    objective: str,
) -> dict[str, Any]:
    return {
        "iterations": _arguments.whole("iterations", iterations, 1),
        "min_sep": _arguments.whole("min_sep", min_sep),
        "max_participations": max_participations,
        "clip_norm": _arguments.above_zero("clip_norm", clip_norm),
        "dimension": None if dimension is None else _arguments.whole("dimension", dimension, 1),
        "parameters": None if parameters is None else _arguments.parameters(parameters),
        "objective": _arguments.text("objective", objective, "rms, max, last"),
    }
