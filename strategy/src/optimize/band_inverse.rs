//! Inverse bands: s free, C = 1/s(x). The sensitivity is that of the non-increasing majorant of |c|, an upper
//! bound wherever Theorem 3.1 does not apply, so an optimum never promises too much.

use super::inverse_error::InverseError;
use super::lbfgs::{Limits, Minimum, Watch, minimise};
use super::monotone::sensitivity_squared;
use super::{Optimized, ProgressFn, Target, check_bands};
use crate::decoder::{correlate, transposed_solve};
use crate::error::Result;
use crate::series::{convolve_at, power};
use crate::strategy::Strategy;

/// Numbers of C that count as nothing beside its diagonal of one.
const QUIET: f64 = 1e-18;
const LIMITS: Limits = Limits { steps: 2000, tolerance: 1e-10 };

pub(super) fn optimize(bands: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    check_bands(bands, target)?;
    let error = InverseError::new(bands, target)?;
    let mut watch = Watch::new(progress);
    let mut best: Option<Minimum> = None;
    for start in starts(bands, target, &mut watch) {
        let found = minimise(start, LIMITS, &mut watch, |x, g| ln_loss(x, g, target, &error));
        if best.as_ref().is_none_or(|b| found.value < b.value) {
            best = Some(found);
        }
    }
    let converged = best.as_ref().is_some_and(|b| b.converged);
    let mut s = vec![1.0];
    s.extend(best.map(|b| b.x).unwrap_or_default());
    Optimized::evaluate(Strategy::BandInverse { s }, target, watch.search(converged))
}

/// BISR, a flatter root, and the best λ-CGD filled up with zeros, so that the result is no worse than those.
fn starts(bands: usize, target: &Target, watch: &mut Watch<'_, '_>) -> Vec<Vec<f64>> {
    let tail = |s: Vec<f64>| s[1..].to_vec();
    let mut starts = vec![tail(power(-0.5, bands)), tail(power(-0.8, bands))];
    if bands > 1 {
        let mut s = vec![0.0; bands - 1];
        s[0] = -super::lambda::search(target, watch);
        starts.push(s);
    }
    starts
}

pub(super) fn ln_loss(x: &[f64], gradient: &mut [f64], target: &Target, error: &InverseError) -> f64 {
    let n = target.iterations as usize;
    let mut s = vec![1.0];
    s.extend_from_slice(x);
    let error = error.gradient(&s);
    let c = series(&s, n);
    let (bound, from) = majorant(&c);
    let square = sensitivity_squared(&bound, target);
    let mut square_c = vec![0.0; c.len()];
    for (i, g) in square.gradient.iter().enumerate() {
        square_c[from[i]] += g * c[from[i]].signum();
    }
    // s·c = 1, so ∂square/∂s_j = −Σ_i λ_i c_{i−j} with Sᵀλ = ∂square/∂c.
    let square_s = correlate(&transposed_solve(&s, &square_c), &c, s.len());
    for (i, g) in gradient.iter_mut().enumerate() {
        *g = 0.5 * error.gradient[i + 1] / error.value - 0.5 * square_s[i + 1] / square.value;
    }
    0.5 * (error.value * square.value).ln()
}

/// 1/s(x) with s_0 = 1, up to n numbers or until it has died away; may overflow to infinity, which the search steps
/// back from.
fn series(s: &[f64], n: usize) -> Vec<f64> {
    let mut c: Vec<f64> = Vec::new();
    let mut quiet = 0;
    for t in 0..n {
        let next = if t == 0 { 1.0 } else { -convolve_at(s, &c, t) };
        quiet = if next.abs() < QUIET { quiet + 1 } else { 0 };
        c.push(next);
        // Each number follows from the last p−1, so it stays quiet for good.
        if quiet >= s.len() {
            break;
        }
    }
    c
}

/// The non-increasing majorant of |c| and, for each entry, the index it was taken from.
fn majorant(c: &[f64]) -> (Vec<f64>, Vec<usize>) {
    let mut bound: Vec<f64> = c.iter().map(|c| c.abs()).collect();
    let mut from: Vec<usize> = (0..c.len()).collect();
    for i in (1..c.len()).rev() {
        if bound[i] > bound[i - 1] {
            (bound[i - 1], from[i - 1]) = (bound[i], from[i]);
        }
    }
    (bound, from)
}
