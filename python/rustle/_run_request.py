"""A run from what a training asks of its noise: the plan, the batches and the folder that keeps them."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any, Sequence

from . import _arguments, _planning, errors, schemes
from ._batch_bound import FLOATS, batch_summing_error, largest_batch
from ._batches import Batches
from ._connect import connect
from ._native import Plan
from ._rounds import Rounds

# How near the least noise multiplier a search ends.
_SAME = 1e-6
# Searches of two versions may end at other last digits; other arguments change figures by more.
_FOLDER = 1e-4
# Noise multipliers that a search under Poisson sampling tries.
_LEAST, _MOST = 1e-2, 1e4
# Times that σ is raised for a grid, whose cost hardly changes with it, and what roundings leave open.
_RAISES, _MARGIN = 16, 1 + 1e-9


class RunRequest:
    """What a training asks of its noise, and the run that gives it.

    Args:
        parameters: Names and shapes of the parameters.
        records: The number of records.
        steps_per_epoch: The batches that a pass through the records has.
        epochs: The passes.
        clip_norm: ζ.
        noise_multiplier: σ of independent noise, or None for ``promise``.
        promise: (ε, δ) of the whole run, or None for ``noise_multiplier``.
        poisson: Whether batches are sampled by Poisson sampling.
        mechanism, size: As of :func:`rustle.plan`.
        norm_dtype: As of :func:`rustle.plan`; None where it is float32 and not the caller's to choose.
        floats: Whether rows are floating-point numbers in the place of integers on a grid.

    Raises:
        rustle.errors.InvalidArgument: Values that no run has, or batches whose sums no grid covers.
    """

    def __init__(
        self,
        parameters: Sequence[tuple[str, Sequence[int]]],
        records: int,
        *,
        steps_per_epoch: int,
        epochs: Any,
        clip_norm: float,
        noise_multiplier: float | None = None,
        promise: tuple[float, float] | None = None,
        poisson: bool = False,
        mechanism: str | None = None,
        size: int | None = None,
        norm_dtype: str | None = None,
        floats: bool = False,
    ):
        if not isinstance(epochs, int) or epochs < 1:
            text = f"epochs is {epochs}; allowed: 1 or more, the passes of the whole training, which its noise depends on"
            raise errors.make("invalid_argument", text)
        if noise_multiplier is not None:
            noise_multiplier = _arguments.above_zero("noise_multiplier", noise_multiplier)
        if poisson and mechanism not in (None, "identity"):
            text = f"mechanism is {mechanism} and batches are Poisson samples; allowed: identity, whose account is amplified"
            raise errors.make("invalid_argument", text)
        self.layout = _arguments.parameters(parameters)
        self.epochs, self.clip_norm = epochs, _arguments.above_zero("clip_norm", clip_norm)
        if promise is not None:
            promise = _arguments.number("epsilon", promise[0]), _arguments.number("delta", promise[1])
        self.steps_per_epoch, self.records = steps_per_epoch, records
        self.noise_multiplier, self.promise, self.poisson = noise_multiplier, promise, poisson
        self.mechanism, self.size = ("identity" if poisson else mechanism), size
        self.floats, self._summing_error = floats, None
        #: The most records of a batch whose sum the plan's grid covers, None for floating-point rows.
        self.largest: int | None = None
        if not floats:
            self.largest = largest_batch(records, steps_per_epoch, self._iterations if poisson else None)
            dimension = sum(math.prod(shape) for _, shape in self.layout)
            self._summing_error = batch_summing_error(self.largest, dimension, norm_dtype)

    def run(self, folder: str | os.PathLike[str]) -> tuple[Path, Batches]:
        """Returns the plan's file in the folder and the batches. Both are made where the folder has none.

        Raises:
            rustle.errors.PlanError: The folder has the plan of other arguments.
        """
        folder = _arguments.path("folder", folder)
        if self.floats:
            text = (
                "rows of this run are floating-point numbers: its ε does not hold against someone who reads every bit "
                "(docs/grid.md); without float=True they are on a grid, where it does"
            )
            warnings.warn(text, UserWarning, stacklevel=3)
        path = Path(folder) / "plan.toml"
        if path.exists():
            self._check_same(Plan.load(path), path)
        else:
            self._plan().save(path)
        seed = Batches.seed_file(Path(folder) / "batches.key")
        return path, Batches(self._scheme(), self.records, self._iterations, seed)

    @property
    def _iterations(self) -> int:
        return self.epochs * self.steps_per_epoch

    def _scheme(self) -> schemes.Scheme:
        if self.poisson:
            return schemes.poisson(1 / self.steps_per_epoch)
        return schemes.fixed_order(self.steps_per_epoch)

    def _participation(self) -> tuple[int, int]:
        return (1, self._iterations) if self.poisson else (self.steps_per_epoch, self.epochs)

    def _plan(self) -> Plan:
        try:
            plan = self._found()
            if self.noise_multiplier is not None:
                return self._as_private(plan, self.noise_multiplier)
            return self._under_sampling(plan) if self.poisson else plan
        except errors.PlanError as error:
            if self.floats:
                raise
            raise errors.make("plan", f"{error}; or {FLOATS}") from error

    def _found(self) -> Plan:
        """Returns the plan of the best mechanism at (ε, δ) for batches in any order."""
        apart, often = self._participation()
        # The best mechanism does not depend on ε, which only scales its noise.
        epsilon, delta = self.promise or (4.0, 1e-6)
        return _planning.plan(
            iterations=self._iterations,
            epsilon=epsilon,
            delta=delta,
            parameters=self.layout,
            min_sep=apart,
            max_participations=often,
            clip_norm=self.clip_norm,
            mechanism=self.mechanism,
            size=self.size,
            summing_error=self._summing_error,
            float=self.floats,
        )

    def _as_private(self, plan: Plan, noise_multiplier: float) -> Plan:
        """Returns the plan with the noise that costs no more ρ than independent noise of the multiplier."""
        plan = plan.replace(noise_multiplier=noise_multiplier * self._cost(plan))
        if self.floats:
            return plan
        for _ in range(_RAISES):
            found = self._independent(plan)
            if found >= noise_multiplier:
                return plan
            plan = plan.replace(noise_multiplier=plan.noise_multiplier * noise_multiplier / found * _MARGIN)
        raise errors.make("out_of_reach", f"no noise costs as little on a grid as {noise_multiplier:g}; allowed: {FLOATS}")

    def _cost(self, plan: Plan) -> float:
        """Returns how much more noise a plan's row needs than independent noise, for the same privacy."""
        if plan.mechanism == "identity":
            return 1.0
        # Independent noise has sensitivity √k over the k participations of a record.
        return plan.privacy(1e-6)["sensitivity"] / math.sqrt(self._participation()[1])

    def _independent(self, plan: Plan) -> float:
        """Returns the multiplier of independent noise that costs as much ρ as the plan: k/(2σ²) of k participations."""
        if plan.grid is None:
            return plan.noise_multiplier / self._cost(plan)
        return plan.grid["noise_multiplier_accounted"] / self._cost(plan)

    def _event(self, plan: Plan) -> dict[str, Any]:
        return _planning.event(plan, sampling_probability=1 / self.steps_per_epoch if self.poisson else None)

    def _epsilon(self, plan: Plan, delta: float) -> float:
        return _planning.epsilon(self._event(plan), delta=delta)

    def _keeps(self, plan: Plan, epsilon: float, delta: float) -> bool:
        """Returns whether a plan keeps (ε, δ). An account that fails is no answer, and raises what it raised."""
        try:
            return self._epsilon(plan, delta) <= epsilon
        except errors.OutOfReach:
            # Of a plan on a grid ε may be so large that the probability of the grid's failure takes all of δ. Then ε is too large
            # without that probability too.
            event = self._event(plan)
            if event.pop("failure_probability", 0) and _planning.epsilon(event, delta=delta) > epsilon:
                return False
            raise

    def _under_sampling(self, plan: Plan) -> Plan:
        """Returns the plan with the least noise that keeps (ε, δ) under Poisson sampling, which the planner leaves out."""
        assert self.promise is not None
        epsilon, delta = self.promise

        def keeps(noise_multiplier: float) -> bool:
            return self._keeps(plan.replace(noise_multiplier=noise_multiplier), epsilon, delta)

        low, high = _LEAST, plan.noise_multiplier
        while not keeps(high):
            low, high = high, 2 * high
            if high > _MOST:
                raise errors.make("out_of_reach", f"no noise multiplier up to {_MOST:g} keeps ε {epsilon} at δ {delta}")
        while high > low * (1 + _SAME):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return plan.replace(noise_multiplier=high)

    def _check_same(self, plan: Plan, path: Path) -> None:
        self._check_arithmetic(plan, path)
        apart, often = self._participation()
        compared: list[tuple[str, Any, Any]] = [
            ("iterations", plan.iterations, self._iterations),
            ("min_sep", plan.min_sep, apart),
            ("max_participations", plan.max_participations, often),
            ("clip_norm", plan.clip_norm, self.clip_norm),
            ("parameters", [(name, list(shape)) for name, shape in plan.parameters], self.layout),
        ]
        if self.mechanism is not None:
            compared.append(("mechanism", plan.mechanism, self.mechanism))
        for name, has, asked in compared:
            _check_equal(path, name, has, asked)
        if plan.grid is not None:
            kappa, needed = plan.grid["summing_error"], self._summing_error
            _check_equal(path, "grid.summing_error", kappa, needed, keeps=kappa >= needed)
        if self.promise is not None:
            # Never more ε, nor less noise, than requested.
            found, asked = self._epsilon(plan, self.promise[1]), self.promise[0]
            _check_equal(path, "epsilon", found, asked, keeps=found <= asked * (1 + _SAME))
        else:
            assert self.noise_multiplier is not None
            found, asked = self._independent(plan), self.noise_multiplier
            _check_equal(path, "noise_multiplier", found, asked, keeps=found >= asked * (1 - _SAME))

    def _check_arithmetic(self, plan: Plan, path: Path) -> None:
        """Refuses to continue a run on a grid with floating-point rows, and the other way round."""
        if plan.grid is None and not self.floats:
            text = (
                f"{path} is the plan of a run whose rows are floating-point numbers, as its grid is None; allowed: float=True, "
                "which continues it as it began, or another folder, whose run is on a grid (docs/grid.md)"
            )
            raise errors.make("plan", text)
        if plan.grid is not None and self.floats:
            text = (
                f"{path} is the plan of a run on a grid and float is True; allowed: float=False, the default, or another folder"
            )
            raise errors.make("plan", text)


def _check_equal(path: Path, name: str, has: Any, asked: Any, *, keeps: bool = True) -> None:
    is_same = math.isclose(has, asked, rel_tol=_FOLDER) if isinstance(has, float) else has == asked
    if not (is_same and keeps):
        text = (
            f"{path} is the plan of other arguments: its {name} is {has}, asked for was {asked}; allowed: the arguments "
            "that the run began with, or another folder"
        )
        raise errors.make("plan", text)


def begin(
    folder: str | os.PathLike[str],
    *,
    parameters: Sequence[tuple[str, Sequence[int]]],
    records: int,
    batch_size: int,
    epochs: int,
    epsilon: float,
    delta: float,
    clip_norm: float = 1.0,
    poisson: bool = False,
    mechanism: str | None = None,
    size: int | None = None,
    norm_dtype: str = "float32",
    float: bool = False,
) -> Rounds:
    """Begins a run in a folder, or continues it: makes the plan and the batches, connects, and returns the rounds.

    Noise is on a grid, so that ε holds bit for bit (docs/grid.md). A batch's clipped gradients are to be added in float32 or more,
    and nothing but one division to come between their sum and its noise. σ is raised by what adding them costs, which grows with
    the square of the batch: 1 % at 290 records, 12.6 % at 1024. ``rounds.session`` is the session. Called again with the same
    arguments, the run continues in its folder, once a checkpoint or ``session.resume(cursor)`` said where.

    Args:
        folder: Keeps plan, batch seed, key and ledger. Never copy it to train twice.
        parameters: Names and shapes of the parameters: :func:`rustle.torch.layout`, :func:`rustle.jax.layout`.
        records: The number of records.
        batch_size: The most records of a batch; with ``poisson`` about the mean.
        epochs: The passes of the whole training; steps beyond them are refused.
        epsilon, delta: (ε, δ) of the whole run, for zeroing out a record.
        clip_norm: ζ, the norm that each record's gradient is clipped to.
        poisson: False: each record is in one batch of every epoch, and the plan is the one with the least error for that.
            True: batches are Poisson samples, and noise is independent: DP-SGD.
        mechanism, size: As of :func:`rustle.plan`; by default the mechanism with the least error.
        norm_dtype: The type that the squares of each gradient are added in for its norm: float64 where
            :func:`rustle.torch.clipped_sum`, :mod:`rustle.keras` or :mod:`rustle.transformers` clips, which costs large models
            less noise.
        float: Rows of floating-point numbers instead: ε is then that of real ones, and does not hold against someone who knows
            candidate sums and reads every bit. A run that began so continues so, and only with this argument.

    Raises:
        rustle.errors.PlanError: The folder has the plan of other arguments.
        rustle.errors.InvalidArgument: No grid covers batches so large, or norms of so many coordinates; nothing was written.

    Example::

        rounds = rustle.begin(
            "run", parameters=rustle.torch.layout(model), records=len(data), batch_size=64, epochs=5, epsilon=4, delta=1e-5
        )
    """
    folder, poisson = _arguments.path("folder", folder), _arguments.flag("poisson", poisson)
    if os.path.isfile(folder):
        raise _arguments.refused("folder", folder, "a folder, which is made where it is missing")
    records, batch_size = _arguments.whole("records", records, 1), _arguments.whole("batch_size", batch_size, 1)
    request = RunRequest(
        parameters,
        records,
        steps_per_epoch=-(-records // batch_size),
        epochs=epochs,
        clip_norm=clip_norm,
        promise=(epsilon, delta),
        poisson=poisson,
        mechanism=mechanism,
        size=size,
        norm_dtype=norm_dtype,
        floats=float,
    )
    _, batches = request.run(folder)
    session = connect(f"inproc://{os.path.abspath(folder)}")
    try:
        rounds = Rounds(batches, session, steps_per_epoch=request.steps_per_epoch)
    except BaseException:
        session.close()
        raise
    rounds.largest = request.largest
    return rounds
