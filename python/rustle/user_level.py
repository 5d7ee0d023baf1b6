"""DP-SGD for users with many records each: ELS and ULS, Charles et al. (2024), Algorithms 1 and 2.

::

    plan = user_level.plan(
        iterations=500, epsilon=4, delta=1e-6, sampling_probability=0.01, dimension=100_000,
        batch_size=len(records_of_each_user),       # the most of a sampled batch: all of them
    )
    batches = rustle.Batches(schemes.uls(8, schemes.poisson(0.01)), records_of_each_user, 500, seed)
    for round, ids in (training := user_level.Training(session, batches)):
        model -= learning_rate * training.noisy_mean(round, gradients(ids))

ELS clips each record's gradient, ULS the mean of each user's. How many records of a user: :mod:`rustle.group_sizes`.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Callable, Iterator, Literal, Union

import numpy as np

from . import _arguments, _assumptions, _grid_choice, _planning, errors
from ._batches import Batches
from ._native import Plan, keep_on_grid, user_level_event, user_level_noise_multiplier
from ._owners import Owners
from ._session import Session
from .federated._clients import clip
from ._grid_choice import ADD_REMOVE
from .grid import summing_error as _summing_error

__all__ = ["Gradients", "Training", "plan"]

# Of float32 on the way of a gradient into a sum: one, and one for all of float64.
_ROUNDINGS = 2

#: One gradient a row, or what makes them of records.
Gradients = Union[np.ndarray, Callable[[np.ndarray], np.ndarray]]


def plan(
    *,
    iterations: int,
    epsilon: float,
    delta: float,
    sampling_probability: float,
    group_size: int = 1,
    dimension: int | None = None,
    parameters: _planning.Parameters | None = None,
    clip_norm: float = 1.0,
    neighbouring: str = "zero-out",
    summing_error: float | None = None,
    rounding: str | None = None,
    batch_size: int | None = None,
    float: bool = False,
) -> Plan:
    """Independent noise that keeps (ε, δ) for users in Poisson-sampled rounds.

    ``group_size``: G of ELS, records of a user, each sampled with the probability; 1 for ULS, where users are.
    ``summing_error``, ``rounding``, ``float``: as of :func:`rustle.plan`, noise being on a grid unless ``float``. ``batch_size``: the
    most records (ELS) or users (ULS) of a batch, all of them if need be: :class:`Training` adds them in float64, rounds the sum to
    float32 once, and refuses batches of which one is larger: sizes of sampled ones vary, and the number of all always holds.
    The plan by itself knows of no sampling and of one record a round: what it promises is :class:`Training`'s, for
    add-remove one with ``divide_by``.
    """
    if neighbouring == "add-remove" and not float:
        text = f"neighbouring is add-remove and float is False; allowed: zero-out, or float=True, as {ADD_REMOVE}"
        raise errors.make("accounting", text)
    grid = _grid_choice.chosen(
        dimension, parameters, batch_size, summing_error, rounding, "float64", float, roundings=_ROUNDINGS
    )
    epsilon, delta = _arguments.number("epsilon", epsilon), _arguments.number("delta", delta)
    left = delta if grid is None else _grid_choice.delta_left(epsilon, delta)
    rate = _arguments.number("sampling_probability", sampling_probability)
    taken = _arguments.whole("group_size", group_size, 1), _arguments.whole("iterations", iterations, 1)
    relation = _arguments.text("neighbouring", neighbouring, "zero-out, add-remove")
    sigma = user_level_noise_multiplier((rate, *taken), (epsilon, left), relation)
    found = _planning.plan(
        iterations=iterations,
        epsilon=epsilon,
        delta=delta,
        dimension=dimension,
        parameters=parameters,
        max_participations=iterations,
        clip_norm=clip_norm,
        mechanism="identity",
        float=True,
    ).replace(noise_multiplier=sigma)
    return found if grid is None else keep_on_grid(found, *grid)


class Training:
    """Rounds of a session over the batches of users; iterate it for (round, records), from the session's next step.

    ``batches``: of :func:`rustle.schemes.els`, also over :class:`rustle.Owners`, or of :func:`rustle.schemes.uls` with any
    scheme of users. ``combine``: whether a user's gradients are averaged before they are clipped, or summed; ULS alone.
    ELS, and what is amplified by Poisson sampling, needs an identity plan. ``divide_by``: a public constant that sums are
    divided by. By default it is :attr:`expected_size`, which depends on the data, so that statements for add-remove are
    refused.
    """

    def __init__(
        self,
        session: Session,
        batches: Batches,
        *,
        combine: Literal["mean", "sum"] = "mean",
        commitment: Literal["declared", "exact"] = "declared",
        divide_by: float | None = None,
    ):
        kind, sizes = batches.scheme["kind"], batches.population
        if kind not in ("els", "uls") or isinstance(sizes, int):
            raise errors.make("batches", f"batches are of scheme {kind}; allowed: els, uls")
        if combine not in ("mean", "sum") or (combine == "sum" and kind == "els"):
            text = f"combine is {combine!r}; allowed: mean, and sum for uls"
            raise errors.make("invalid_argument", text)
        self.session, self.batches, self.plan = session, batches, session.plan
        if divide_by is not None and not (divide_by > 0 and math.isfinite(divide_by)):
            raise errors.make("invalid_argument", f"divide_by is {divide_by}; allowed: finite and above zero")
        self.combine, self.commitment = combine, commitment
        if isinstance(sizes, Owners):
            # The records that ELS samples from, and no users.
            self._chosen, self._users = (batches.owner_statistics() or {})["kept"], 0
        else:
            self._chosen = sum(min(n, batches.scheme["group_size"]) for n in sizes)
            self._users = len(sizes)
        self._divide_by = divide_by
        self._sampling = _assumptions.sampling_of(self.plan, batches)
        if kind == "els" and self.plan.mechanism != "identity":
            text = f"the plan's noise is {self.plan.mechanism}; allowed for els: identity, as its account knows no other"
            raise errors.make("plan", text)
        self._check_sizes()
        session.claim(self)
        _assumptions.declare(session, batches, self._sampling, public_divisor=divide_by is not None)

    @property
    def example_level(self) -> bool:
        return self.batches.scheme["kind"] == "els"

    @property
    def expected_size(self) -> float:
        """B = p·|D_sub| records of ELS, M = q·N users of ULS, before any cap. It depends on the data."""
        scheme = self.batches.scheme
        if self.example_level:
            return scheme["sampling_probability"] * self._chosen
        return _assumptions.expected_size(self.batches, self._users)

    @property
    def divisor(self) -> float:
        """What sums are divided by: ``divide_by``, or else :attr:`expected_size`."""
        return self.expected_size if self._divide_by is None else self._divide_by

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        for round in range(self.session.next_step, self.plan.iterations):
            yield round, self.batches[round]

    def clipped_sum(self, round: int, gradients: Gradients, chunk: int = 64) -> np.ndarray:
        """Σ over records (ELS) or users (ULS) of clipped gradients, float64 of the session's dimension. Not private.

        ``gradients``: of the round's records in their order, shape (records, dimension); or a function of some of
        them, called for at most ``chunk`` records, and in ULS for one user, at a time.
        """
        ids = self.batches[round]
        total, clip_norm = np.zeros(self.session.dimension), self.session.clip_norm_at(round)
        for part in self._parts(round, len(ids), chunk):
            found = np.asarray(gradients(ids[part]) if callable(gradients) else gradients[part])
            _arguments.real("gradients", found.dtype, found.dtype.kind not in "cb")
            rows = found.astype(np.float64)
            if rows.shape != (len(part), self.session.dimension) or (
                not callable(gradients) and len(gradients) != len(ids)
            ):
                given = rows.shape if callable(gradients) else np.shape(gradients)
                text = (
                    f"gradients have shape {given}; allowed: {len(ids)} records by {self.session.dimension}"
                )
                raise errors.make("layout", text)
            if self.example_level:
                for row in rows:
                    total += clip(row, clip_norm)
            else:
                whole = rows.mean(0) if self.combine == "mean" else rows.sum(0)
                total += clip(whole, clip_norm)
        return total

    def noisy_mean(self, round: int, gradients: Gradients, chunk: int = 64) -> np.ndarray:
        """(clipped sum + noise)/:attr:`divisor`: float32 of the session's dimension. Takes the round's noise."""
        total = self.clipped_sum(round, gradients, chunk).astype(np.float32)
        self.session.privatize_(total, round, commitment=self.commitment, summed_in="float64")
        return total / np.float32(self.divisor)

    def _check_sizes(self) -> None:
        """Refuses batches of which one has a sum that the plan's κ does not cover.

        All rounds, since batches follow from their seed: a run that stopped at one would have spent its budget until there.
        """
        grid = self.plan.grid
        if grid is None or grid["rounding"] == "contributions":
            return
        sizes = [self._size(round) for round in range(min(self.plan.iterations, len(self.batches)))]
        most, kappa = max(sizes, default=0), grid["summing_error"]
        if most and _summing_error(most, self.session.dimension, roundings=_ROUNDINGS, norm_dtype="float64") > kappa:
            text = (
                f"batch {sizes.index(most)} has {most} {'records' if self.example_level else 'users'}, whose sum in floating "
                f"point the plan's grid.summing_error {kappa:.4g} does not cover; allowed: a plan with a batch_size of {most} or "
                "more, or a cap of the batches"
            )
            raise errors.make("batches", text)

    def _size(self, round: int) -> int:
        return len(self.batches[round] if self.example_level else np.unique(self.batches.owners(round)))

    def _parts(self, round: int, records: int, chunk: int) -> Iterator[np.ndarray]:
        """Places of records that are looked at together: some, or all of one user."""
        if chunk < 1:
            raise errors.make("invalid_argument", f"chunk is {chunk}; allowed: 1 or more")
        if self.example_level:
            for first in range(0, records, chunk):
                yield np.arange(first, min(first + chunk, records))
            return
        owners = np.asarray(self.batches.owners(round))
        for owner in np.unique(owners):
            yield np.flatnonzero(owners == owner)

    @property
    def event(self) -> dict[str, Any]:
        """The event of the whole run for an accountant, where Poisson sampling amplifies it."""
        law = self.batches.event
        if law["kind"] not in ("user-level", "poisson-sampled-gaussian") or self.plan.mechanism != "identity":
            text = f"no event of its own for {law['kind']} and {self.plan.mechanism}; see report()"
            raise errors.make("accounting", text)
        group_size = law.get("group_size", 1)
        grid, q = self.plan.grid, law["sampling_probability"]
        sigma = self.plan.noise_multiplier if grid is None else grid["noise_multiplier_accounted"]
        return json.loads(user_level_event(sigma, q, group_size, self.plan.iterations))

    def epsilon(self, delta: float, *, neighbouring: str = "zero-out") -> float:
        """Of the whole run, for users: their records together, however many they have."""
        self.session.check(neighbouring)
        if self.example_level:
            self._one_branch()
            return self._example_level_epsilon(delta, neighbouring)
        text = self.session.report(
            delta=delta, neighbouring=neighbouring, batches=self._sampling, format="json"
        )
        return json.loads(text)["guarantees"][0]["epsilon"]

    def _example_level_epsilon(self, delta: float, neighbouring: str) -> float:
        epsilon = _planning.epsilon(self.event, delta=delta, neighbouring=neighbouring)
        if self.plan.grid is None:
            return epsilon
        # Of what is left of δ at a little more ε, which is then enough.
        left = _grid_choice.delta_left(epsilon * 1.001 + 1e-6, delta)
        return _planning.epsilon(self.event, delta=left, neighbouring=neighbouring)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: float,
        neighbouring: str = "zero-out",
        format: str | None = None,
    ) -> str:
        """Returns the statement, and writes it to ``path`` if there is one: of ULS that of :meth:`rustle.Session.report`.

        ``format``: as there; of ELS markdown alone.
        """
        if not self.example_level:
            return self.session.report(path, delta=delta, neighbouring=neighbouring, batches=self._sampling, format=format)
        path = None if path is None else _arguments.path("path", path)
        _arguments.one_of("format", "markdown" if format is None else format, ["markdown"])
        epsilon = self.epsilon(delta, neighbouring=neighbouring)
        text = self._example_level_statement(epsilon, delta, neighbouring)
        if path is not None:
            _arguments.write(path, text)
        return text

    def _one_branch(self) -> None:
        branches = json.loads(self.session._native.report())["released"]["branches"]
        if len(branches) > 1:
            text = f"the job went back {len(branches) - 1} times; amplified accounts and abandoned rows do not add up"
            raise errors.make("accounting", text)

    def _example_level_statement(self, epsilon: float, delta: float, neighbouring: str) -> str:
        scheme, plan = self.batches.scheme, self.plan
        rows = {
            "unit": "user: all records of one user together",
            "neighbours": neighbouring,
            "sums are divided by": f"{self.divisor:g}, {'a public constant' if self._divide_by else 'of the data'}",
            "ε of the whole run": f"{_up(epsilon)} at δ = {delta:g}",
            "account": "mixture of Gaussians of Binomial(G, p), Charles et al. (2024), Theorem 1",
            "records of a user, at most (G)": scheme["group_size"],
            "sampling probability of a record (p)": scheme["sampling_probability"],
            "rounds": plan.iterations,
            "rounds released": self.session.next_step,
            "noise multiplier": plan.noise_multiplier,
            "clip norm of a record": plan.clip_norm,
            "plan": plan.digest,
            "job": self.session.job,
        }
        lines = [f"| {name} | {value} |" for name, value in rows.items()]
        taken = (
            "It holds where each record was sampled by itself with that probability, batches and their seed are "
            "secret, and the job's noise was used for nothing else. Under add-remove nothing that was released beside "
            "the sums depends on how many records there are."
        )
        return "\n".join(
            ["# Example-level sampling of users", "", "| | |", "|---|---|", *lines, "", taken, ""]
        )


def _up(value: float) -> str:
    """Rounded up in the sixth digit, so that nothing is promised that was not found."""
    text = f"{value:.6g}"
    return text if float(text) >= value else f"{value * (1 + 1e-5):.6g}"
