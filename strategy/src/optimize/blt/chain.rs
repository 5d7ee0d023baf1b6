//! The unknowns of the search: 0 < φ₁ < φ̂₁ < φ₂ < … < φ̂_d < 1 (φ = 1−θ), each the next one times a logistic
//! function of a free number.
//!
//! In that order ω > 0 and Σω < 1 hold by themselves, so Theorem 3.1 does too, and φ₁ falls to 1e-7 as easily as
//! to 1e-2. Two bounds keep the result well-conditioned: neighbouring buffers stay a relative [`GAP`] apart, so
//! that θ gives back θ̂, and no buffer decays slower than [`SLOWEST`].

use crate::optimize::{logistic, logit};

/// Least relative distance of a φ̂ from the next φ, and so of two φ.
const GAP: f64 = 1e-6;
/// Least φ: the step of f32 below one. Coefficients run in f32, where a slower decay would become θ = 1.
pub(super) const SLOWEST: f64 = 1.0 / (1 << 24) as f64;

/// φ₁, φ̂₁, φ₂, … from the free numbers.
pub(super) fn ordered(x: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    let mut above = 1.0;
    for i in (0..x.len()).rev() {
        above *= most(i) * logistic(x[i]);
        out[i] = SLOWEST + (1.0 - SLOWEST) * above;
    }
    out
}

/// The free numbers of φ₁, φ̂₁, φ₂, ….
pub(super) fn free(ordered: &[f64]) -> Vec<f64> {
    let scaled = |i: usize| ordered.get(i).map_or(1.0, |z| ((z - SLOWEST) / (1.0 - SLOWEST)).max(1e-300));
    (0..ordered.len())
        .map(|i| {
            let (own, above) = (scaled(i), scaled(i + 1) * most(i));
            logit(own, above - own)
        })
        .collect()
}

/// Derivatives by the free numbers from those by φ₁, φ̂₁, φ₂, …: x_i scales everything up to place i.
pub(super) fn pull(x: &[f64], ordered: &[f64], by_ordered: &[f64], gradient: &mut [f64]) {
    let mut below = 0.0;
    for i in 0..x.len() {
        below += (ordered[i] - SLOWEST) * by_ordered[i];
        gradient[i] = logistic(-x[i]) * below;
    }
}

/// (φ, φ̂) from their ordered mix.
pub(super) fn split(ordered: &[f64]) -> (Vec<f64>, Vec<f64>) {
    (ordered.iter().step_by(2).copied().collect(), ordered.iter().skip(1).step_by(2).copied().collect())
}

/// The most that number i may be of the next one.
fn most(i: usize) -> f64 {
    if i % 2 == 1 { 1.0 - GAP } else { 1.0 }
}
