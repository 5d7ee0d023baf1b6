//! Toeplitz strategies C = LtToep(c): sensitivity and prefix-sum errors from the series alone.

use ndarray::Array2;

use crate::banded::Banded;
use crate::error::{Result, series_length};
use crate::participation::{Errors, Participation, Sensitivity};
use crate::series::{check_leading, convolve_at};

/// How far the majorant may exceed |c|, relative to its largest entry, and still count as rounding.
const ROUNDING: f64 = 1e-13;

/// sens(C) for `n` rounds with j − i ≥ `min_sep` and at most `max_participations`, per unit clip norm.
///
/// `c` is the first column, zero beyond its end. Exact when one user's columns cannot overlap (one
/// participation, or no more bands than min_sep), or when c is non-negative and non-increasing (papers/000,
/// Theorem 3.1: (0, b, 2b, …) is then the worst pattern). Otherwise the value is that of the non-increasing
/// majorant of |c|, an upper bound.
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
    let bound = majorant(c);
    let excess = bound.iter().zip(c).map(|(m, c)| m - c).fold(0.0, f64::max);
    let value = spaced_squared(&bound, rounds, gap, count).sqrt();
    Ok(Sensitivity { value, exact: excess <= ROUNDING * bound[0] })
}

/// The smallest non-increasing sequence that is at least |c| everywhere.
#[must_use]
pub fn majorant(c: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = c.iter().map(|c| c.abs()).collect();
    for i in (1..out.len()).rev() {
        out[i - 1] = out[i - 1].max(out[i]);
    }
    out
}

/// ‖C u‖² for participations at 0, gap, 2·gap, … (`count` of them) in `rounds` rounds.
pub(crate) fn spaced_squared(c: &[f64], rounds: usize, gap: usize, count: usize) -> f64 {
    spaced_sum(c, rounds, gap, count).iter().map(|u| u * u).sum()
}

/// The vector C u itself, cut where it becomes zero.
pub(crate) fn spaced_sum(c: &[f64], rounds: usize, gap: usize, count: usize) -> Vec<f64> {
    let mut total = vec![0.0; rounds.min((count - 1).saturating_mul(gap).saturating_add(c.len()))];
    for j in 0..count {
        total.iter_mut().skip(j * gap).zip(c).for_each(|(u, c)| *u += c);
    }
    total
}

/// The first column of B = A·C⁻¹ for prefix sums, the solution of C b = (1, 1, …). O(n·p).
pub(crate) fn decoder(c: &[f64], rounds: usize) -> Vec<f64> {
    let mut b: Vec<f64> = Vec::with_capacity(rounds);
    for t in 0..rounds {
        b.push((1.0 - convolve_at(c, &b, t)) / c[0]);
    }
    b
}

/// Prefix-sum errors over `n` rounds, in units of σζ. O(n·p) time.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable column or number of rounds.
pub fn errors(c: &[f64], n: u64) -> Result<Errors> {
    check_leading(c)?;
    Ok(errors_of_decoder(&decoder(c, series_length(n)?)))
}

/// Errors of a Toeplitz decoder from its first column: row i has the norm of b_0…b_i, so the last is worst.
pub(crate) fn errors_of_decoder(b: &[f64]) -> Errors {
    let n = b.len();
    let last: f64 = b.iter().map(|b| b * b).sum();
    let total: f64 = b.iter().enumerate().map(|(i, b)| (n - i) as f64 * (b * b)).sum();
    Errors { rms: (total / n as f64).sqrt(), max: last.sqrt(), last: last.sqrt() }
}

/// The matrix as a [`Banded`] of n columns; n·p numbers.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable column or number of rounds.
pub fn columns(c: &[f64], n: u64) -> Result<Banded> {
    check_leading(c)?;
    let rounds = series_length(n)?;
    let c = &c[..c.len().min(rounds)];
    series_length(n.saturating_mul(c.len() as u64))?;
    Banded::new(Array2::from_shape_fn((rounds, c.len()), |(_, i)| c[i]))
}
