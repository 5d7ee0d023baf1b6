"""A clip norm for each step, set before the first row, under a plan with one clip norm."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any, Callable, Sequence

import numpy as np

from . import _arguments, errors

Norms = Sequence[float] | Callable[[int], float]


class ClipNorms:
    """The half of a session that knows which norm the contributions of each step are clipped to.

    A sum of contributions of norm at most C_t, times ζ/C_t, is one of contributions of norm at most ζ, as the plan assumes.
    Its noise is added in those units, and the result scaled back: after the noise, so at no cost, whatever the mechanism.
    Both together are the noise of the plan times C_t/ζ.
    """

    @property
    def plan(self) -> Any:
        """The plan of the job."""
        raise NotImplementedError

    @property
    def next_step(self) -> int:
        """The next step."""
        raise NotImplementedError

    def __init__(self) -> None:
        self._planned_norm: float | None = None
        self._norms: np.ndarray | None = None
        # Whether this session bound a row or took a position, which rows were delivered before.
        self._begun = False

    def schedule_clip_norms(self, norms: Norms) -> None:
        """Sets the norm that contributions of each step are clipped to, in the place of the plan's one norm.

        Noise of step t is then that of the plan times C_t/ζ. Privacy is the plan's: its ε holds for any schedule that depends
        on no record. Correlated noise of two steps cancels only as far as their norms are alike, so that a schedule should
        change slowly under such a plan.

        Call it once, before the session has a trainer, a row or a position: with the same norms before each resume, as two
        multiples of one row would give a sum away. Cursors carry a digest of the norms, and a resume under others is refused.
        Clip to :attr:`clip_norm`; adapters that clip by themselves do so. The ledger does not hold the norms; :meth:`report`
        of this session names them.

        Args:
            norms: One for each step of the plan, finite and above zero, or a function of the step.

        Raises:
            rustle.errors.InvalidArgument: A norm that is not allowed, a plan on a grid, a launch under MPI, or a session that
                has a trainer, a schedule, a row or a position already.
        """
        plan = self.plan
        given = [norms(step) for step in range(plan.iterations)] if callable(norms) else norms
        found = _arguments.numbers("norms", given)
        if len(found) != plan.iterations:
            text = f"the schedule has {len(found)} clip norms; allowed: {plan.iterations}, one for each step of the plan"
            raise errors.make("invalid_argument", text)
        values = np.asarray(found, np.float64)
        bad = ~(np.isfinite(values) & (values > 0) & _fit(values, plan))
        if bad.any():
            step = int(bad.argmax())
            text = (
                f"the clip norm of step {step} is {found[step]}; allowed: finite and above zero, and so large that its noise "
                f"and its ratio to the plan's {plan.clip_norm:g} are float32"
            )
            raise errors.make("invalid_argument", text)
        if plan.grid is not None:
            text = (
                f"the plan is on a grid, whose step is made for its clip norm; allowed: {plan.clip_norm:g} in every step, and so no "
                "schedule, or a plan made with float=True, whose rows don't hold against precision attacks (docs/grid.md)"
            )
            raise errors.make("invalid_argument", text)
        if _is_in_launch():
            text = "the process is one of a launch under MPI, whose ranks share rows; allowed there: the plan's clip norm"
            raise errors.make("invalid_argument", text)
        if self._norms is not None or self._is_used():
            text = "the session has a trainer or a schedule already; allowed: one schedule, before a trainer uses the session"
            raise errors.make("invalid_argument", text)
        if self._begun:
            text = (
                "the session bound a row or has a position already, and two multiples of one row give a sum away; allowed: a "
                "schedule before the first row, and before resume, of a session that was connected anew"
            )
            raise errors.make("invalid_argument", text)
        self._norms = values

    def clip_norm_at(self, step: int) -> float:
        """Returns the norm that contributions of a step are clipped to: the plan's, or that of the schedule."""
        if self._norms is not None:
            return float(self._norms[step])
        if self._planned_norm is None:
            self._planned_norm = self.plan.clip_norm
        return self._planned_norm

    @property
    def clip_norm(self) -> float:
        """The norm that contributions of the next step are clipped to; after the last step that of the last.

        Raises:
            rustle.errors.InvalidArgument: It is read under a schedule while JAX traces a function, whose constant it would be.
        """
        if self._norms is None:
            return self.clip_norm_at(0)
        if is_traced():
            text = (
                "clip_norm is read while JAX traces a function, which would keep this step's norm for all steps; allowed: to "
                "read it outside and pass it as an argument"
            )
            raise errors.make("invalid_argument", text)
        return self.clip_norm_at(min(self.next_step, len(self._norms) - 1))

    @property
    def has_clip_schedule(self) -> bool:
        """Whether :meth:`schedule_clip_norms` was called."""
        return self._norms is not None

    def refuse_clip_schedule(self, who: str) -> None:
        """Refuses a schedule, for an adapter that knows one clip norm alone.

        Raises:
            rustle.errors.InvalidArgument: There is one.
        """
        if self._norms is not None:
            raise errors.make("invalid_argument", f"the session has a schedule of clip norms; allowed for {who}: none")

    @property
    def _norms_digest(self) -> bytes | None:
        if self._norms is None:
            return None
        return hashlib.sha256(b"rustle clip norms v1" + self._norms.astype("<f8").tobytes()).digest()

    def _is_used(self) -> bool:
        raise NotImplementedError

    def _scale(self, step: int) -> float:
        """Returns C_t/ζ."""
        if self._norms is None or not 0 <= step < len(self._norms):
            return 1.0
        if self._planned_norm is None:
            self._planned_norm = self.plan.clip_norm
        return float(self._norms[step]) / self._planned_norm

    def _scale_in_place(self, step: int, noise: np.ndarray) -> None:
        if self._norms is not None:
            np.multiply(noise, self._scale(step), out=noise, dtype=np.float64, casting="unsafe")

    def _noted(self, text: str, format: str) -> str:
        """Returns a statement that names the schedule, where there is one."""
        return text if self._norms is None else noted(text, format, self._norms)


def _fit(values: np.ndarray, plan: Any) -> np.ndarray:
    """Returns which norms have noise, and ratios to the plan's norm, that neither vanish nor overflow in float32."""
    limits = np.finfo(np.float32)
    is_within = lambda numbers: (numbers > limits.tiny) & (numbers < limits.max)
    with np.errstate(all="ignore"):
        scales, ratios = values * plan.noise_multiplier, values / plan.clip_norm
        return ((scales == 0) | is_within(scales)) & is_within(ratios) & is_within(1 / ratios)


def _is_in_launch() -> bool:
    """Whether this process joined a launch under MPI."""
    return bool(getattr(sys.modules.get("rustle._mpi"), "_joined", False))


def is_traced() -> bool:
    """Whether JAX traces a function here, as far as its version says so."""
    is_clean = getattr(sys.modules.get("jax._src.core"), "trace_state_clean", None)
    return is_clean is not None and not is_clean()


def noted(text: str, format: str, norms: np.ndarray) -> str:
    """Returns a statement, markdown, html or json, with the clip norms of a schedule."""
    figures = {"first": norms[0], "last": norms[-1], "least": norms.min(), "most": norms.max()}
    if format == "json":
        return json.dumps({**json.loads(text), "clip_schedule": {name: float(value) for name, value in figures.items()}}, indent=2)
    numbers = ", ".join(f"{name} {value:g}" for name, value in figures.items())
    said = (
        f"Contributions are clipped to a norm of each step ({numbers}), as this session states it: no ledger records these "
        "norms. The guarantees hold if they depend on no record. Sums and noise of a step are scaled together, from the plan's "
        "clip norm to that of the step, so that the guarantees are those of the plan's clip norm."
    )
    if format == "html":
        body, end, rest = text.rpartition("</body>")
        return f"{body}<h2>Clip norms of a schedule</h2>\n<p>{said}</p>\n{end}{rest}"
    return f"{text.rstrip()}\n\n## Clip norms of a schedule\n\n{said}\n"
