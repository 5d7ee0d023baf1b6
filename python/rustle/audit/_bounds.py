"""What scores prove."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .. import _arguments
from .._native import audit_canaries, audit_guesses, audit_scores


_METHODS = "one-run, clopper-pearson, gaussian"


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
    values = as_scores("scores", scores).reshape(-1)
    labels = np.ascontiguousarray(included, np.bool_).reshape(-1)
    claim, method = _claim(epsilon, delta, confidence), _arguments.text("method", method, _METHODS)
    guesses = None if guesses is None else _arguments.whole("guesses", guesses)
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
    canaries, guesses = _arguments.whole("canaries", canaries), _arguments.whole("guesses", guesses)
    claim = _claim(epsilon, delta, confidence)
    return _made(audit_guesses((canaries, guesses, _arguments.whole("correct", correct)), claim), "one-run", claim, epsilon)


def canaries_needed(
    *, epsilon: float, delta: float, confidence: float = 0.99, method: str = "one-run"
) -> int:
    """Returns the fewest canaries that can refute ``epsilon``, each of them recognised. A real attack needs more."""
    claim = _claim(_arguments.number("epsilon", epsilon), delta, confidence)
    return audit_canaries(claim, _arguments.text("method", method, _METHODS))


def as_scores(name: str, values: Any) -> np.ndarray:
    """Returns scores as float64 in C order."""
    try:
        return np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError):
        raise _arguments.refused(name, values, "one number for each canary") from None


def _claim(epsilon: float | None, delta: float, confidence: float) -> tuple[float, float, float]:
    claimed = 0.0 if epsilon is None else _arguments.number("epsilon", epsilon)
    return claimed, _arguments.number("delta", delta), _arguments.number("confidence", confidence)


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
