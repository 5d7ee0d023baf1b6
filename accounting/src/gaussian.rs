//! The exact (ε, δ) of a Gaussian mechanism, μ = sensitivity/σ:
//! δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).
//!
//! σζ·C⁻¹Z with adaptively chosen inputs is Gaussian with μ = sens(C)/σ, so this is exact for every strategy
//! whose sensitivity is exact, and an upper bound where the sensitivity is one.

use crate::error::{AccountingError, Result, not_negative, positive, probability};
use crate::normal::{ln_cdf, ln_density, mills, mills_fall};

/// Bisection halves until neighbouring floats; this is more than enough for any bracket of f64.
const HALVINGS: usize = 2200;

/// Gauss–Legendre with five nodes on [0, 1].
pub(crate) const NODES: [(f64, f64); 5] = [
    (0.046_910_077_030_668_004, 0.118_463_442_528_094_54),
    (0.230_765_344_947_158_45, 0.239_314_335_249_683_23),
    (0.5, 64.0 / 225.0),
    (0.769_234_655_052_841_5, 0.239_314_335_249_683_23),
    (0.953_089_922_969_332, 0.118_463_442_528_094_54),
];

/// Widest μ, absolutely and in units of t, over which five nodes integrate Mills' ratio's slope to f64: its eleventh
/// derivative is at most 11!/t¹² and 3840.
const NARROW: f64 = 0.2;
const NARROW_FAR: f64 = 0.1;

/// Relative rounding of Mills' ratio and of the arithmetic on it, added to every bound.
const ROUNDING: f64 = 128.0 * f64::EPSILON;

/// Returns ln δ(ε) of the Gaussian mechanism with μ = sensitivity/σ, never below it.
///
/// With Mills' ratio m and t = ε/μ − μ/2 the density of the second term at t+μ times e^ε is the density of the first
/// at t, so δ = φ(t)·(m(t) − m(t+μ)) without cancelling exponents, and the difference is the integral of −m' from t
/// to t+μ, which loses no digits where μ is small.
///
/// # Errors
/// [`AccountingError::Invalid`] unless ε ≥ 0 and μ > 0, both finite.
pub fn ln_delta(epsilon: f64, mu: f64) -> Result<f64> {
    not_negative("epsilon", epsilon)?;
    positive("sensitivity / noise multiplier", mu)?;
    Ok(ln_delta_unchecked(epsilon, mu))
}

fn ln_delta_unchecked(epsilon: f64, mu: f64) -> f64 {
    let t = epsilon / mu - mu / 2.0;
    if t == f64::INFINITY {
        return f64::NEG_INFINITY;
    }
    let ln_density = ln_density_at(epsilon, mu, t);
    // Squares of t are rounded once more than everything else.
    let rounding = ROUNDING + f64::EPSILON * t * t;
    if mu <= NARROW.max(NARROW_FAR * t) {
        let slope: f64 = NODES.iter().map(|(node, weight)| weight * mills_fall(t + node * mu)).sum();
        return ln_density + mu.ln() + slope.ln() + rounding;
    }
    let far = mills(epsilon / mu + mu / 2.0);
    if t > 0.0 {
        let near = mills(t);
        return ln_density + near.ln() + (-(far / near)).ln_1p() + rounding;
    }
    // Near δ = 1 the digits are in 1 − δ.
    let first = ln_cdf(-t) * (1.0 - rounding);
    let second = ln_density + far.ln() - rounding;
    first + (-(second - first).exp()).ln_1p()
}

/// Returns ln φ(t) at t = ε/μ − μ/2, corrected for the rounding of t itself.
fn ln_density_at(epsilon: f64, mu: f64, t: f64) -> f64 {
    let ratio = epsilon / mu;
    let left = (-ratio).mul_add(mu, epsilon) / mu;
    // The rounding error of the subtraction (Knuth).
    let half = t - ratio;
    let lost = (ratio - (t - half)) + (-mu / 2.0 - half);
    let correction = t * (left + lost);
    ln_density(t) - if correction.is_finite() { correction } else { 0.0 }
}

/// Returns δ(ε) of the Gaussian mechanism with μ = sensitivity/σ; zero where it is below the smallest f64.
///
/// # Errors
/// Those of [`ln_delta`].
pub fn delta(epsilon: f64, mu: f64) -> Result<f64> {
    Ok(ln_delta(epsilon, mu)?.exp())
}

/// Returns the smallest ε ≥ 0 with δ(ε) ≤ `delta`, to the last digits of f64 and never below it.
///
/// # Errors
/// [`AccountingError::Invalid`] unless μ > 0 is finite and 0 < δ < 1.
pub fn epsilon(delta: f64, mu: f64) -> Result<f64> {
    positive("sensitivity / noise multiplier", mu)?;
    let goal = probability("delta", delta)?.ln().next_down();
    if ln_delta_unchecked(0.0, mu) <= goal {
        return Ok(0.0);
    }
    // zCDP's simple conversion ρ + 2√(ρ ln(1/δ)) is an upper bound, so the root lies below it: no bracket can run
    // away. ρ = μ²/2 would underflow where μ is very small, so the bound is written in μ.
    let high = mu * (mu / 2.0 + (-2.0 * goal).sqrt());
    if !high.is_finite() {
        return Err(AccountingError::OutOfReach { what: "epsilon", setting: format!("mu = {mu}") });
    }
    Ok(bisect(0.0, high * (1.0 + 1e-12), |e| ln_delta_unchecked(e, mu) <= goal).1)
}

/// Returns the true positive rate of the best test between neighbours at a false positive rate: Φ(Φ⁻¹(fpr) + μ).
///
/// # Errors
/// [`AccountingError::Invalid`] unless μ ≥ 0 is finite and 0 < fpr < 1.
pub fn true_positive_rate(false_positive_rate: f64, mu: f64) -> Result<f64> {
    not_negative("sensitivity / noise multiplier", mu)?;
    let goal = probability("false positive rate", false_positive_rate)?.ln();
    let (_, at) = bisect(-40.0, 40.0, |x| ln_cdf(x) >= goal);
    Ok(ln_cdf(at + mu).exp().max(false_positive_rate))
}

/// Returns the largest μ = sensitivity/σ whose Gaussian mechanism is (ε, δ), never above it.
///
/// # Errors
/// [`AccountingError::Invalid`] unless ε ≥ 0 is finite and 0 < δ < 1; [`AccountingError::OutOfReach`] where
/// f64 cannot tell μ from zero.
pub fn largest_mu(epsilon: f64, delta: f64) -> Result<f64> {
    not_negative("epsilon", epsilon)?;
    let goal = probability("delta", delta)?.ln().next_down();
    // √ρ = √(L+ε) − √L, L = ln(1/δ), satisfies zCDP's conversion: a μ that is small enough.
    let low = std::f64::consts::SQRT_2 * epsilon / ((epsilon - goal).sqrt() + (-goal).sqrt());
    // At ε = 0 that is μ = 0; δ(0) = erf(μ/√8) ≤ μ/2 gives another.
    let low = low.max(delta);
    let mut high = low;
    let mut doublings = 0;
    while ln_delta_unchecked(epsilon, high) <= goal {
        high *= 2.0;
        doublings += 1;
        if doublings > 64 || !high.is_finite() {
            let setting = format!("epsilon = {epsilon}, delta = {delta}");
            return Err(AccountingError::OutOfReach { what: "sensitivity / noise multiplier", setting });
        }
    }
    Ok(bisect(low / 2.0, high, |mu| ln_delta_unchecked(epsilon, mu) > goal).0)
}

/// Returns the smallest noise multiplier σ with which a mechanism of this sensitivity (per unit clip norm) is
/// (ε, δ)-differentially private under zeroing out one user.
///
/// # Errors
/// Those of [`largest_mu`], and [`AccountingError::Invalid`] unless the sensitivity is finite and positive.
pub fn calibrate_gaussian(sensitivity: f64, epsilon: f64, delta: f64) -> Result<f64> {
    positive("sensitivity", sensitivity)?;
    let sigma = sensitivity / largest_mu(epsilon, delta)?;
    // The division may round down; one step up keeps the guarantee.
    positive("noise multiplier", sigma.next_up())
}

/// Returns the neighbouring floats (below, at) where a monotone predicate turns true between `low` and `high`.
pub(crate) fn bisect(mut low: f64, mut high: f64, mut holds: impl FnMut(f64) -> bool) -> (f64, f64) {
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    (low, high)
}
