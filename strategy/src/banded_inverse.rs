//! Strategies whose inverse has few diagonals: C⁻¹ = LtToep(s), so ẑ_t = Σ_{i<p} s_i z_{t−i} needs no state.

use crate::error::{Result, series_length};
use crate::participation::{Errors, Participation, Sensitivity};
use crate::series::{check_leading, invert};
use crate::toeplitz;

/// Returns the first `count` coefficients of C itself, 1/s(x).
///
/// # Errors
/// [`crate::StrategyError::Invalid`] when `s` is empty, not finite or starts with zero.
pub fn coefficients(s: &[f64], count: usize) -> Result<Vec<f64>> {
    invert(s, count)
}

/// Returns sens(C) by the rule for Toeplitz strategies ([`toeplitz::sensitivity`]) on the column 1/s(x), per unit clip
/// norm, for participations with j − i ≥ `min_sep`. O(n·p).
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for unusable numbers, or when 1/s(x) grows beyond what f64 holds.
pub fn sensitivity(s: &[f64], n: u64, rule: Participation) -> Result<Sensitivity> {
    let c = invert(s, series_length(n)?)?;
    toeplitz::sensitivity(&c, n, rule)
}

/// Returns the prefix-sum errors in units of σζ: B = A·C⁻¹ is the running sum of s, constant after p terms. O(p).
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for unusable numbers.
pub fn errors(s: &[f64], n: u64) -> Result<Errors> {
    check_leading(s)?;
    let rounds = series_length(n)?;
    let mut b = 0.0;
    let mut last = 0.0;
    let mut total = 0.0;
    for (i, s) in s.iter().take(rounds).enumerate() {
        b += s;
        last += b * b;
        total += (rounds - i) as f64 * (b * b);
    }
    let rest = rounds.saturating_sub(s.len()) as f64;
    last += rest * (b * b);
    total += rest * (rest + 1.0) / 2.0 * (b * b);
    Ok(Errors { rms: (total / rounds as f64).sqrt(), max: last.sqrt(), last: last.sqrt() })
}
