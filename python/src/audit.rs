//! Audits: what an attack on canaries proves.

use accounting::audit::{self, Bound, Claim, Guesses, Method, Scores};
use pyo3::prelude::*;

use crate::error::{Refused, Result};

/// (lower bound of ε, p-value of the claim, canaries, guesses, correct ones)
type Found = (f64, f64, u64, u64, u64);

fn method_of(name: &str) -> Result<Method> {
    let names = Method::ALL.map(Method::name).join(", ");
    Method::from_name(name).ok_or_else(|| Refused::invalid("method", format!("{name:?}"), names))
}

fn claim_of(claim: (f64, f64, f64)) -> Claim {
    Claim { epsilon: claim.0, delta: claim.1, confidence: claim.2 }
}

fn found(bound: Bound) -> Found {
    (bound.epsilon_lower, bound.p_value, bound.canaries, bound.guesses, bound.correct)
}

/// `claim`: ε, δ, confidence.
#[pyfunction]
pub fn audit_scores(
    py: Python<'_>,
    scores: Vec<f64>,
    included: Vec<bool>,
    claim: (f64, f64, f64),
    method: &str,
    guesses: Option<u64>,
) -> Result<Found> {
    let method = method_of(method)?;
    py.detach(|| Ok(found(Scores::new(scores, included)?.bound(claim_of(claim), method, guesses)?)))
}

/// `counts`: canaries, guesses, correct guesses of one run.
#[pyfunction]
pub fn audit_guesses(py: Python<'_>, counts: (u64, u64, u64), claim: (f64, f64, f64)) -> Result<Found> {
    let guesses = Guesses { canaries: counts.0, guesses: counts.1, correct: counts.2 };
    py.detach(|| Ok(found(guesses.bound(claim_of(claim))?)))
}

#[pyfunction]
pub fn audit_canaries(py: Python<'_>, claim: (f64, f64, f64), method: &str) -> Result<u64> {
    let method = method_of(method)?;
    py.detach(|| Ok(audit::canaries_needed(claim_of(claim), method)?))
}
