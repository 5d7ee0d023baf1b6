//! Band-Toeplitz coefficients by their series: error and gradient in O(n·p).
//!
//! The unknowns are the ratios c_i/c_{i−1}, each a logistic function of a free number, so c stays positive and
//! decreasing: Theorem 3.1 holds at every step and the loss is exact for any separation.

use super::lbfgs::{Limits, Search, Watch, minimise};
use super::series_gradient::{Setting, correlate, spaced, transposed_solve};
use super::{Optimised, ProgressFn, Target, logistic, logit};
use crate::error::{Result, invalid, series_length};
use crate::mechanism::Strategy;
use crate::series::power;

const LIMITS: Limits = Limits { steps: 3000, tolerance: 1e-10 };

/// Optimises a band-Toeplitz strategy.
pub(super) fn optimise(bands: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimised> {
    let column = optimal_column(bands, target, &mut Watch::new(progress))?;
    Optimised::evaluate(
        Strategy::BandToeplitz { c: column.c, column_normalised: false },
        target,
        column.search,
    )
}

/// An optimised first column, also where band-mf starts.
pub(super) struct Column {
    pub c: Vec<f64>,
    pub search: Search,
}

pub(super) fn optimal_column(bands: usize, target: &Target, watch: &mut Watch<'_, '_>) -> Result<Column> {
    let rounds = series_length(target.iterations)?;
    if bands == 0 || bands > rounds {
        return Err(invalid("bands", bands, format!("1 to {rounds}, the iterations")));
    }
    let setting = Setting::new("band-toeplitz", target)?;
    let start = free(&best_power(bands, &setting));
    let found = minimise(start, LIMITS, watch, |x, gradient| ln_loss(x, gradient, &setting));
    Ok(Column { c: column(&found.x), search: watch.search(found.converged) })
}

/// The best of the columns (1−x)^{−α}, α in ½…1 (papers/001, Appendix J): within 0.2 % of the optimum.
fn best_power(bands: usize, setting: &Setting<'_>) -> Vec<f64> {
    let candidates = (0..10).map(|i| power(0.5 + 0.05 * f64::from(i), bands));
    let loss = |c: &Vec<f64>| {
        let b = decoder(c, setting);
        setting.error_squared(&b).0 * spaced(c, setting.target).0
    };
    candidates.min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap_or_else(|| power(0.5, bands))
}

/// The first column of B = A·C⁻¹.
fn decoder(c: &[f64], setting: &Setting<'_>) -> Vec<f64> {
    let n = setting.target.iterations as usize;
    match &setting.column {
        None => crate::toeplitz::decoder(c, n),
        Some(column) => crate::series::divide(column, c),
    }
}

fn column(x: &[f64]) -> Vec<f64> {
    let mut c = vec![1.0];
    for x in x {
        c.push(c[c.len() - 1] * logistic(*x));
    }
    c
}

fn free(c: &[f64]) -> Vec<f64> {
    c.windows(2).map(|w| logit(w[1], w[0] - w[1])).collect()
}

fn ln_loss(x: &[f64], gradient: &mut [f64], setting: &Setting<'_>) -> f64 {
    let c = column(x);
    let b = decoder(&c, setting);
    let (error, error_b) = setting.error_squared(&b);
    let (square, square_c) = spaced(&c, setting.target);
    // C b = A's column, so ∂error/∂c_j = −Σ_i λ_i b_{i−j} with Cᵀλ = ∂error/∂b.
    let error_c = correlate(&transposed_solve(&c, &error_b), &b, c.len());
    // ∂/∂x_i = (1 − ratio_i)·Σ_{j>i} c_j ∂/∂c_j, because x_i scales every later coefficient.
    let mut later = 0.0;
    for i in (0..x.len()).rev() {
        later += c[i + 1] * (0.5 * square_c[i + 1] / square - 0.5 * error_c[i + 1] / error);
        gradient[i] = logistic(-x[i]) * later;
    }
    0.5 * (error * square).ln()
}
