//! Runs that leave the mechanism that is accounted for with a small probability τ, whichever the data.
//!
//! A transcript that differs from the mechanism's with a probability of at most τ under either of two neighbours has δ(ε) at
//! most the mechanism's plus τ(1 + e^ε): P̃ ≤ P + τ ≤ e^ε·Q + δ + τ ≤ e^ε·(Q̃ + τ) + δ + τ.

use crate::error::{AccountingError, Result, not_negative};

/// Most doublings of a first guess of ε.
const DOUBLINGS: usize = 64;

/// A guess of ε leaves room for the figure to move by a rounding.
const ROOM: f64 = 1e-6;

/// Returns δ at `epsilon` of a run that leaves the mechanism with probability `failure`, where `delta` is that of the
/// mechanism. It may exceed 1, where it says nothing.
///
/// # Errors
/// [`AccountingError::Invalid`] unless 0 ≤ failure is finite.
pub fn delta(epsilon: f64, failure: f64, delta: f64) -> Result<f64> {
    let failure = not_negative("failure probability", failure)?;
    if failure == 0.0 {
        return Ok(delta);
    }
    Ok((delta + failure * (1.0 + epsilon.exp())).next_up())
}

/// Returns ε at `delta` of a run that leaves the mechanism with probability `failure`; `of_mechanism` returns the mechanism's
/// own figure at a δ, and `epsilon` reads ε off it.
///
/// # Errors
/// Those of `of_mechanism`; [`AccountingError::Invalid`] unless 0 ≤ failure is finite; [`AccountingError::OutOfReach`] where
/// failure alone is more than δ allows.
pub fn at_delta<T>(
    delta: f64,
    failure: f64,
    of_mechanism: impl Fn(f64) -> Result<T>,
    epsilon: impl Fn(&T) -> f64,
) -> Result<T> {
    let failure = not_negative("failure probability", failure)?;
    let first = of_mechanism(delta)?;
    if failure == 0.0 {
        return Ok(first);
    }
    let mut guess = epsilon(&first) * (1.0 + ROOM) + ROOM;
    for _ in 0..DOUBLINGS {
        let left = (delta - failure * (1.0 + guess.exp())).next_down();
        if left.is_nan() || left <= 0.0 {
            break;
        }
        let found = of_mechanism(left)?;
        // δ at the figure found, with failure at an ε that is no smaller, is within δ.
        if epsilon(&found) <= guess {
            return Ok(found);
        }
        guess = epsilon(&found) * (1.0 + ROOM) + ROOM;
    }
    let setting = format!("delta = {delta:e} and a failure probability of {failure:e}");
    Err(AccountingError::OutOfReach { what: "epsilon", setting })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian;

    #[test]
    fn both_ways_agree_and_nothing_is_gained() {
        for (mu, delta_asked, failure) in
            [(0.5, 1e-6, 1e-12), (2.0, 1e-6, 1e-14), (4.0, 1e-10, 1e-25), (0.1, 1e-3, 1e-4)]
        {
            let own = |delta| gaussian::epsilon(delta, mu);
            let epsilon = at_delta(delta_asked, failure, own, |epsilon| *epsilon).unwrap();
            let back = delta(epsilon, failure, gaussian::delta(epsilon, mu).unwrap()).unwrap();
            assert!(back <= delta_asked * (1.0 + 1e-12), "{mu} {failure}: {back}");
            assert!(back >= delta_asked * (1.0 - 1e-3), "{mu} {failure}: {back} is far below");
            assert!(epsilon >= own(delta_asked).unwrap());
        }
        assert_eq!(at_delta(1e-6, 0.0, Ok, |x| *x).unwrap(), 1e-6);
    }

    #[test]
    fn a_failure_above_delta_has_no_epsilon() {
        let own = |delta| gaussian::epsilon(delta, 1.0);
        let refused = at_delta(1e-6, 1e-6, own, |epsilon| *epsilon).unwrap_err().to_string();
        assert!(refused.contains("failure probability of 1e-6"), "{refused}");
        assert!(at_delta(1e-6, f64::NAN, own, |epsilon| *epsilon).is_err());
    }
}
