//! Toeplitz strategies C = LtToep(c): sensitivity and prefix-sum errors from the series alone.

use ndarray::Array2;

use crate::banded::Banded;
use crate::decoder::Decoder;
use crate::error::{Result, check_numbers, series_length};
use crate::loss::Objective;
use crate::participation::{Errors, Participation, Sensitivity};
use crate::sensitivity::spaced_squared;
use crate::series::check_leading;
use crate::workload::Workload;

pub use crate::sensitivity::majorant;

/// Returns sens(C) for `n` rounds with j − i ≥ `min_sep` and at most `max_participations`, per unit clip norm.
///
/// `c` is the first column, zero beyond its end. Exact when one user's columns cannot overlap (one
/// participation, or no more bands than min_sep), and when c is non-negative and does not rise from index
/// min_sep on: (0, b, 2b, …) is then the worst pattern (McMahan, Xu, Zhang 2024, Theorem 3.1, for columns that
/// never rise).
/// Otherwise patterns are searched, and the result is exact where a contribution attains the bound; columns
/// too long to search get the bound of their majorant.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable column, rule or number of rounds.
pub fn sensitivity(c: &[f64], n: u64, rule: Participation) -> Result<Sensitivity> {
    check_leading(c)?;
    rule.check()?;
    let rounds = series_length(n)?;
    let c = &c[..c.len().min(rounds)];
    let count = rule.in_rounds(n) as usize;
    let gap = rule.min_sep.min(n) as usize;
    if count == 1 || c.len() <= gap {
        // Columns shrink only where the last rounds cut them, so the earliest pattern is the worst one.
        return Ok(Sensitivity::exact_squared(spaced_squared(c, rounds, gap, count)));
    }
    Ok(crate::sensitivity::toeplitz(c, rounds, rule).sensitivity())
}

/// Returns the prefix-sum errors over `n` rounds, in units of σζ; O(ℓ·p) with ℓ ≤ n the rounds until the decoder
/// settles.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable column or number of rounds.
pub fn errors(c: &[f64], n: u64) -> Result<Errors> {
    check_leading(c)?;
    let squared = |objective| {
        Ok(Decoder::new("band-toeplitz", n, &objective, &Workload::Prefix)?.error_squared(c).sqrt())
    };
    let last = squared(Objective::Last)?;
    Ok(Errors { rms: squared(Objective::Rms)?, max: last, last })
}

/// Returns the matrix as a [`Banded`] of n columns; n·p numbers.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable column or number of rounds.
pub fn columns(c: &[f64], n: u64) -> Result<Banded> {
    check_leading(c)?;
    let rounds = series_length(n)?;
    let c = &c[..c.len().min(rounds)];
    check_numbers(n, c.len())?;
    Banded::new(Array2::from_shape_fn((rounds, c.len()), |(_, i)| c[i]))
}
