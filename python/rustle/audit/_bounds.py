"""What scores prove."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .. import errors
from .._native import audit_canaries, audit_guesses, audit_scores


@dataclasses.dataclass(frozen=True)
class Bound:
    """A lower bound of ε at δ, that holds with the confidence asked for, or more.

    ``epsilon_lower``: 0 where nothing was shown. ``p_value``: a bound of the probability of such success if the training
    has ``epsilon_claimed`` (or ε = 0, where nothing is claimed). ``guesses``, ``correct``: what the bound rests on.
    """

    method: str
    epsilon_lower: float
    delta: float
    confidence: float
    canaries: int
    guesses: int
    correct: int
    p_value: float
    epsilon_claimed: float | None = None

    @property
    def refuted(self) -> bool:
        """Whether the training has not the ε that is claimed of it."""
        return self.epsilon_claimed is not None and self.epsilon_lower > self.epsilon_claimed


def bound(
    scores: Any,
    included: Any,
    *,
    delta: float,
    epsilon: float | None = None,
    confidence: float = 0.99,
    method: str = "one-run",
    guesses: int | None = None,
) -> Bound:
    """Bounds ε from below by scores of canaries.

    Args:
        scores: One number for each canary, higher where it seems to be in the training.
        included: Whether it was.
        delta: δ of the bound and of the claim.
        epsilon: The ε that is claimed.
        confidence: Probability with which the bound is no higher than the true ε.
        method: ``"one-run"``: canaries of one run, each included by a fair coin of its own (Steinke, Nasr, Jagielski 2023).
            ``"clopper-pearson"``: scores are independent: of separate runs, or of canaries that share no noise.
            ``"gaussian"``: the same, and the mechanism is Gaussian: no sampling amplifies it.
        guesses: Of ``"one-run"``: guesses to make, chosen without regard to the scores. By default several numbers are
            tried, and the bound pays for that.

    Raises:
        rustle.errors.AccountingError: Too few canaries to refute the claim, if all were recognised; how many would do.
    """
    values = np.ascontiguousarray(scores, np.float64).reshape(-1)
    labels = np.ascontiguousarray(included, np.bool_).reshape(-1)
    claim = (0.0 if epsilon is None else float(epsilon), float(delta), float(confidence))
    return _made(audit_scores(values, labels, claim, method, guesses), method, claim, epsilon)


def bound_of_guesses(
    canaries: int,
    guesses: int,
    correct: int,
    *,
    delta: float,
    epsilon: float | None = None,
    confidence: float = 0.99,
) -> Bound:
    """Bounds ε from below by counts of one run: of ``canaries``, each included by a fair coin, ``guesses`` were guessed, a
    number chosen beforehand, and ``correct`` of those rightly."""
    if min(canaries, guesses, correct) < 0:
        text = f"counts are {canaries}, {guesses}, {correct}; allowed: zero and above"
        raise errors.make("invalid_argument", text)
    claim = (0.0 if epsilon is None else float(epsilon), float(delta), float(confidence))
    return _made(audit_guesses((canaries, guesses, correct), claim), "one-run", claim, epsilon)


def canaries_needed(
    *, epsilon: float, delta: float, confidence: float = 0.99, method: str = "one-run"
) -> int:
    """Returns the fewest canaries that can refute ``epsilon``, each of them recognised. A real attack needs more."""
    return audit_canaries((float(epsilon), float(delta), float(confidence)), method)


def _made(found: tuple[float, float, int, int, int], method: str, claim: Any, epsilon: float | None) -> Bound:
    lower, p_value, canaries, guesses, correct = found
    return Bound(
        method=method,
        epsilon_lower=lower,
        delta=claim[1],
        confidence=claim[2],
        canaries=canaries,
        guesses=guesses,
        correct=correct,
        p_value=p_value,
        epsilon_claimed=epsilon,
    )
