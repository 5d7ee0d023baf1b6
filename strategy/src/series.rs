//! Power series behind the Toeplitz strategies: a lower triangular Toeplitz matrix is its first column, and
//! products and inverses of such matrices are products and inverses of series.

use crate::error::{Result, all_finite, invalid};

/// Returns the first `count` coefficients of (1−x)^(−α): 1, α, α(α+1)/2, …
///
/// α = ½ is the square root of prefix sums, α = −½ its inverse, α = 1 prefix sums themselves
/// (McKenna 2024, Appendix J, sweeps α in ½…1).
#[must_use]
pub fn power(alpha: f64, count: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(count);
    let mut c = 1.0;
    for k in 0..count {
        if k > 0 {
            c *= (k as f64 - 1.0 + alpha) / k as f64;
        }
        out.push(c);
    }
    out
}

/// Returns the first `bands` coefficients r_k of (1−x)^(−½): the banded square root of prefix sums.
#[must_use]
pub fn band_sqrt(bands: usize) -> Vec<f64> {
    power(0.5, bands)
}

/// Returns the first `bands` coefficients s_k of (1−x)^½: the banded inverse square root.
#[must_use]
pub fn band_inverse_sqrt(bands: usize) -> Vec<f64> {
    power(-0.5, bands)
}

/// Returns the first `count` coefficients of 1/c(x); `c` is zero beyond its end. O(count · c.len()).
///
/// # Errors
/// [`crate::StrategyError::Invalid`] when `c` is empty, has a number that is not finite, or starts with zero.
pub fn invert(c: &[f64], count: usize) -> Result<Vec<f64>> {
    check_leading(c)?;
    let mut out: Vec<f64> = Vec::with_capacity(count);
    for t in 0..count {
        let impulse = if t == 0 { 1.0 } else { 0.0 };
        out.push((impulse - convolve_at(c, &out, t)) / c[0]);
    }
    Ok(out)
}

/// Σ_{1≤i<p} c_i x_{t−i}, the part of row t that earlier entries decide.
pub(crate) fn convolve_at(c: &[f64], x: &[f64], t: usize) -> f64 {
    let reach = t.min(c.len() - 1);
    c[1..=reach].iter().zip(x[t - reach..t].iter().rev()).map(|(c, x)| c * x).sum()
}

/// Refuses an empty, non-finite or singular first column.
pub(crate) fn check_leading(c: &[f64]) -> Result<()> {
    all_finite("coefficient", c)?;
    match c.first() {
        None => Err(invalid("number of coefficients", 0, "1 or more")),
        Some(&lead) if lead == 0.0 => Err(invalid("leading coefficient", lead, "any number but zero")),
        Some(_) => Ok(()),
    }
}

/// Returns the running sums out_t = Σ_{i≤t} v_i.
#[must_use]
pub fn prefix_sums(v: &[f64]) -> Vec<f64> {
    v.iter()
        .scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        })
        .collect()
}

/// Returns the first `count` coefficients of a BLT strategy: c_0 = 1, c_i = Σ_j ω_j θ_j^{i−1}. O(count·d).
#[must_use]
pub fn blt_coefficients(theta: &[f64], omega: &[f64], count: usize) -> Vec<f64> {
    let mut powers = omega.to_vec();
    let mut out = Vec::with_capacity(count);
    for i in 0..count {
        if i == 0 {
            out.push(1.0);
            continue;
        }
        out.push(powers.iter().sum());
        powers.iter_mut().zip(theta).for_each(|(p, t)| *p *= t);
    }
    out
}

/// Returns the first `count` coefficients of a BLT's inverse, by its own row rule applied to an impulse (McMahan, Xu,
/// Zhang 2024, Alg. 3). O(count·d).
#[must_use]
pub fn blt_inverse_coefficients(theta: &[f64], omega: &[f64], count: usize) -> Vec<f64> {
    let mut state = vec![0.0; theta.len()];
    let mut out = Vec::with_capacity(count);
    for t in 0..count {
        let impulse = if t == 0 { 1.0 } else { 0.0 };
        let row = impulse - omega.iter().zip(&state).map(|(w, s)| w * s).sum::<f64>();
        state.iter_mut().zip(theta).for_each(|(s, t)| *s = *s * t + row);
        out.push(row);
    }
    out
}
