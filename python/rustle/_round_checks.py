"""What a session checks of each step's batch, for sessions that :class:`rustle.Rounds` belong to."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from . import errors
from ._kappa import IN_FLOAT64, KappaCheck
from ._sum_bound import check_finite, check_norm
from ._tagged_cursor import check_same


_WAY = '; or summed_in="float64", where contributions are added in float64 and their sum is rounded to float32 once'


def _nothing() -> None:
    """Waits for nothing."""


class RoundChecks:
    """The half of a session that knows which batch each step is of."""

    clip_norm_at: Callable[[int], float]

    def __init__(self) -> None:
        self._rounds: Any = None
        # By what a caller states of its sums.
        self._kappas = {
            "float32": KappaCheck(self, way=_WAY),  # type: ignore[arg-type]
            "float64": KappaCheck(self, roundings=IN_FLOAT64),  # type: ignore[arg-type]
        }
        self._resumed_batches: bytes | None = None
        #: Whether a cursor, a restart or rank 0 states where the job continues.
        self._has_position = False
        #: How often the session went to another position, or to the same one again.
        self.positions = 0
        #: Waits for steps that were started and have not run, where an adapter starts them ahead.
        self.settle: Callable[[], None] = _nothing
        #: Called once the session went to another place of the job: at a cursor, or by a restart.
        self.on_move: list[Callable[[], None]] = []

    @property
    def rounds(self) -> Any:
        """The :class:`rustle.Rounds` that check each step, or None."""
        return self._rounds

    def watch(self, rounds: Any) -> None:
        """Lets :class:`rustle.Rounds` check each step from now on, in the place of earlier ones."""
        of = "the cursor" if self._rounds is None else "the rounds before"
        check_same(self._batches_digest, rounds.digest, of)
        self._rounds = rounds

    def excuse(self, step: int) -> None:
        """Admits the row of a step that is left out, whatever batch was drawn."""
        if self._rounds is not None:
            self._rounds.excuse(step)

    @property
    def _batches_digest(self) -> bytes | None:
        return self._rounds.digest if self._rounds is not None else self._resumed_batches

    def _check_round(self, step: Any, sum: np.ndarray | None = None, divide_by: float = 1.0) -> None:
        if self._rounds is None:
            return
        records = self._rounds.records(int(step))
        if sum is not None:
            check_finite(sum)
            check_norm(float(np.linalg.norm(sum)), divide_by, records, self.clip_norm_at(int(step)))

    def _check_kappa(self, step: int, summed_in: str) -> None:
        """Refuses more contributions than the κ of a plan on a grid covers, where rounds say how many a step has."""
        check = self._kappas.get(summed_in)
        if check is None:
            text = f"summed_in is {summed_in!r}; allowed: {', '.join(self._kappas)}. No plan accounts for sums in fewer bits"
            raise errors.make("invalid_argument", text)
        if self._rounds is not None:
            check.check(self._rounds.records(step))

    def _resumed(self, saved: bytes | None) -> None:
        """Notes the digest of the batches of the cursor that the session is at now."""
        self._resumed_batches = saved
        self._has_position = True
        self.positions += 1
        if self._rounds is not None:
            self._rounds.forget()
        for follow in self.on_move:
            follow()
