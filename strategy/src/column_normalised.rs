//! A Toeplitz column with every column of C scaled to norm one, the true shorter columns near n included.
//!
//! C = T·diag(1/ν_j) with ν_j = ‖c_0…c_{min(p, n−j)−1}‖, so only the last p−1 columns differ from a Toeplitz
//! matrix and everything stays O(n·p).

use ndarray::Array2;

use crate::banded::Banded;
use crate::error::{Result, check_numbers, series_length};
use crate::participation::{Errors, Participation, Sensitivity};
use crate::sensitivity::{gram::Gram, worst};
use crate::series::{check_leading, invert, prefix_sums};

/// ν_j, the norm of Toeplitz column `j` within `n` rows.
pub(crate) fn norms(c: &[f64], n: usize) -> impl Fn(usize) -> f64 {
    let squares: Vec<f64> = c.iter().map(|c| c * c).collect();
    let running = prefix_sums(&squares);
    move |j| running[(n - j).min(running.len()) - 1].sqrt()
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
    let norm = norms(c, rounds);
    Banded::new(Array2::from_shape_fn((rounds, c.len()), |(j, i)| c[i] / norm(j)))
}

/// Returns sens(C) per unit clip norm, for participations with j − i ≥ `min_sep`.
///
/// √min(k, ⌈n/b⌉) when p ≤ min_sep, whose columns do not overlap; else the worst pattern is searched, and exact
/// where a contribution attains the bound found. Memory is O(p·min(n, k·p)).
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable column, rule or number of rounds.
pub fn sensitivity(c: &[f64], n: u64, rule: Participation) -> Result<Sensitivity> {
    check_leading(c)?;
    rule.check()?;
    let rounds = series_length(n)?;
    let c = &c[..c.len().min(rounds)];
    let count = rule.in_rounds(n);
    if count == 1 || c.len() as u64 <= rule.min_sep {
        return Ok(Sensitivity::exact_squared(count as f64));
    }
    // Gaps beyond p make no difference, nor does how far whole columns lie from the start: k·p last rounds have
    // every arrangement that n have.
    let rounds = rounds.min((count as usize).saturating_mul(c.len()));
    series_length(rounds as u64 * c.len() as u64)?;
    let norm = norms(c, rounds);
    let gram = Gram::toeplitz(c, rounds).scaled(|j| 1.0 / norm(j));
    Ok(worst(&gram, rounds, rule, false)?.sensitivity())
}

/// Returns the prefix-sum errors in units of σζ; O(n·p).
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for an unusable column or number of rounds.
pub fn errors(c: &[f64], n: u64) -> Result<Errors> {
    Ok(Errors::of_rows(&row_errors_squared(c, n)?))
}

/// Returns the squared prefix-sum error of every row; O(n·p).
///
/// C⁻¹ = diag(ν)·T⁻¹: as long as ν is constant row i of B is ν times the Toeplitz one, and the last p−1 rows
/// are added one at a time.
///
/// # Errors
/// Fails as [`errors`] does.
pub fn row_errors_squared(c: &[f64], n: u64) -> Result<Vec<f64>> {
    check_leading(c)?;
    let rounds = series_length(n)?;
    let norm = norms(c, rounds);
    let inverse = invert(c, rounds)?;
    let whole = rounds - (c.len().min(rounds) - 1);
    let scale = norm(0);
    let b: Vec<f64> = prefix_sums(&inverse).iter().map(|b| b * scale).collect();
    let squares: Vec<f64> = b[..whole].iter().map(|b| b * b).collect();
    let mut squared = prefix_sums(&squares);
    // Row whole−1 of B, then one row of C⁻¹ more each time; entry j of a Toeplitz row t is element t−j.
    let mut row: Vec<f64> = b[..whole].iter().rev().copied().collect();
    for t in whole..rounds {
        row.push(0.0);
        row.iter_mut().zip(inverse[..=t].iter().rev()).for_each(|(b, x)| *b += norm(t) * x);
        squared.push(row.iter().map(|b| b * b).sum());
    }
    Ok(squared)
}

/// Row `t` of C for `n` rounds, t+1 numbers.
pub(crate) fn row(c: &[f64], n: usize, t: usize) -> Vec<f64> {
    let norm = norms(c, n);
    (0..=t).map(|j| if t - j < c.len() { c[t - j] / norm(j) } else { 0.0 }).collect()
}

/// Row `t` of C⁻¹ for `n` rounds, t+1 numbers.
pub(crate) fn inverse_row(c: &[f64], n: usize, t: usize) -> Result<Vec<f64>> {
    let scale = norms(c, n)(t);
    Ok(invert(c, t + 1)?.into_iter().rev().map(|x| x * scale).collect())
}
