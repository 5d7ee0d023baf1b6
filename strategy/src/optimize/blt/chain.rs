//! The unknowns of the search: 0 < φ₁ < φ̂₁ < φ₂ < … < φ̂_d < 1 (φ = 1−θ), each a logistic function of
//! a free number between zero and the next one.
//!
//! In that order ω > 0 and Σω < 1 hold by themselves, so Theorem 3.1 does too, and φ₁ falls to 1e-11 as
//! easily as to 1e-2. Two bounds keep the result well-conditioned: neighbouring buffers stay a relative
//! [`GAP`] apart, so that θ̂ can be found again from θ, and no buffer decays slower than [`SLOWEST`].

use crate::optimize::{logistic, logit};

/// Least relative distance of a φ̂ from the next φ, and so of two φ.
const GAP: f64 = 1e-6;
/// The same, absolute: θ near one are a multiple of 1e-16.
const STEP: f64 = 1e-14;
/// Least φ. Many optima want φ₁ = 0; so near it nothing is lost (published ones end at 2e-12). Runs keep θ in
/// f32, which from some 10⁷ rounds on shows: `single` sees to that.
pub(super) const SLOWEST: f64 = 1e-12;

/// φ₁, φ̂₁, φ₂, … from the free numbers.
pub(super) fn ordered(x: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    let mut above = 1.0;
    for i in (0..x.len()).rev() {
        above = least(i) + (most(i, above) - least(i)) * logistic(x[i]);
        out[i] = above;
    }
    out
}

/// The free numbers of φ₁, φ̂₁, φ₂, ….
pub(super) fn free(ordered: &[f64]) -> Vec<f64> {
    (0..ordered.len())
        .map(|i| {
            let above = ordered.get(i + 1).map_or(1.0, |z| *z);
            logit((ordered[i] - least(i)).max(f64::MIN_POSITIVE), most(i, above) - ordered[i])
        })
        .collect()
}

/// Derivatives by the free numbers from those by φ₁, φ̂₁, φ₂, …: x_i moves everything up to place i.
pub(super) fn pull(x: &[f64], ordered: &[f64], by_ordered: &[f64], gradient: &mut [f64]) {
    let mut below = 0.0;
    for i in 0..x.len() {
        below += by_ordered[i];
        gradient[i] = below * (ordered[i] - least(i)) * logistic(-x[i]);
        below *= scale(i) * logistic(x[i]);
    }
}

/// (φ, φ̂) from their ordered mix.
pub(super) fn split(ordered: &[f64]) -> (Vec<f64>, Vec<f64>) {
    (ordered.iter().step_by(2).copied().collect(), ordered.iter().skip(1).step_by(2).copied().collect())
}

/// The most that number i may be below the next one.
fn most(i: usize, above: f64) -> f64 {
    if i % 2 == 1 { scale(i) * above - STEP } else { above }
}

/// The derivative of [`most`] in the next number.
fn scale(i: usize) -> f64 {
    if i % 2 == 1 { 1.0 - GAP } else { 1.0 }
}

/// The least that number i may be: rising, so that there is room for the gaps even at the lower end.
fn least(i: usize) -> f64 {
    SLOWEST * (i + 1) as f64
}
