"""The privacy that a job's releases have cost, for Opacus."""

from __future__ import annotations

import json
from typing import Any

from opacus.accountants.accountant import IAccountant

from .. import errors
from .._native import statement
from .._planning import sampling_arguments
from .._session import Session
from ..sampling import Sampling


class Accountant(IAccountant):
    """An Opacus accountant that returns ε of what the job has released, by Rustle's account of the plan."""

    def __init__(self, session: Session | None = None, batches: Sampling | None = None):
        self.history: list[tuple[float, float, int]] = []
        self.session, self.batches = session, batches

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            steps = self.history.pop()[2] + 1
        else:
            steps = 1
        self.history.append((noise_multiplier, sample_rate, steps))

    def get_epsilon(self, delta: float, *, neighbouring: str = "zero-out", **_: Any) -> float:
        """Returns ε of the rows released so far, including those of abandoned branches."""
        figures = self._statement(delta, neighbouring)["released"]
        return figures["guarantees"][0]["epsilon"] if figures["rows"] else 0.0

    def planned_epsilon(self, delta: float, *, neighbouring: str = "zero-out") -> float:
        """Returns ε of the whole run, including what was abandoned so far."""
        return self._statement(delta, neighbouring)["guarantees"][0]["epsilon"]

    def _statement(self, delta: float, neighbouring: str) -> dict[str, Any]:
        if self.session is None:
            raise errors.make("not_resumed", "no model is private yet; call make_private first")
        self.session.check(neighbouring)
        report, protected = self.session._native.report(), (neighbouring, self.session.unit)
        return json.loads(statement(None, report, [delta], protected, sampling_arguments(self.batches), "json"))

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "rustle"
