//! The exact (ε, δ) of a Gaussian mechanism, μ = sensitivity/σ:
//! δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).
//!
//! σζ·C⁻¹Z with adaptively chosen inputs is Gaussian with μ = sens(C)/σ, so this is exact for every strategy
//! whose sensitivity is exact, and an upper bound where the sensitivity is one.

use crate::error::{AccountingError, Result, not_negative, positive, probability};
use crate::normal::{ln_cdf, ln_density, mills};

/// Bisection halves until neighbouring floats; this is more than enough for any bracket of f64.
const HALVINGS: usize = 2200;

/// ln δ(ε) of the Gaussian mechanism with μ = sensitivity/σ.
///
/// Where the tail matters both terms are written with Mills' ratio m: with t = ε/μ − μ/2 the density of the
/// second at t+μ times e^ε is the density of the first at t, so δ = φ(t)·(m(t) − m(t+μ)) without cancelling
/// exponents.
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
    if t > 0.0 {
        let (near, far) = (mills(t), mills(t + mu));
        return ln_density(t) + near.ln() + (-(far / near)).ln_1p();
    }
    let first = ln_cdf(-t);
    let second = epsilon + ln_cdf(-t - mu);
    first + (-(second - first).exp()).ln_1p()
}

/// δ(ε) of the Gaussian mechanism with μ = sensitivity/σ; zero where it is below the smallest f64.
///
/// # Errors
/// As [`ln_delta`].
pub fn delta(epsilon: f64, mu: f64) -> Result<f64> {
    Ok(ln_delta(epsilon, mu)?.exp())
}

/// The smallest ε ≥ 0 with δ(ε) ≤ `delta`, to the last digits of f64 and never below it.
///
/// # Errors
/// [`AccountingError::Invalid`] unless μ > 0 is finite and 0 < δ < 1.
pub fn epsilon(delta: f64, mu: f64) -> Result<f64> {
    positive("sensitivity / noise multiplier", mu)?;
    let goal = probability("delta", delta)?.ln();
    if ln_delta_unchecked(0.0, mu) <= goal {
        return Ok(0.0);
    }
    // zCDP's simple conversion is an upper bound, so the root lies below it: no bracket can run away.
    let rho = 0.5 * mu * mu;
    let high = rho + 2.0 * (rho * -goal).sqrt();
    if !high.is_finite() {
        return Err(AccountingError::OutOfReach { what: "epsilon", setting: format!("mu = {mu}") });
    }
    Ok(bisect(0.0, high * (1.0 + 1e-12), |e| ln_delta_unchecked(e, mu) <= goal).1)
}

/// The true positive rate of the best test between neighbours at a false positive rate: Φ(Φ⁻¹(fpr) + μ).
///
/// # Errors
/// [`AccountingError::Invalid`] unless μ ≥ 0 is finite and 0 < fpr < 1.
pub fn true_positive_rate(false_positive_rate: f64, mu: f64) -> Result<f64> {
    not_negative("sensitivity / noise multiplier", mu)?;
    let goal = probability("false positive rate", false_positive_rate)?.ln();
    let (_, at) = bisect(-40.0, 40.0, |x| ln_cdf(x) >= goal);
    Ok(ln_cdf(at + mu).exp().max(false_positive_rate))
}

/// The largest μ = sensitivity/σ whose Gaussian mechanism is (ε, δ), never above it.
///
/// # Errors
/// [`AccountingError::Invalid`] unless ε ≥ 0 is finite and 0 < δ < 1; [`AccountingError::OutOfReach`] where
/// f64 cannot tell μ from zero.
pub fn largest_mu(epsilon: f64, delta: f64) -> Result<f64> {
    not_negative("epsilon", epsilon)?;
    let goal = probability("delta", delta)?.ln();
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

/// The smallest noise multiplier σ with which a mechanism of this sensitivity (per unit clip norm) is
/// (ε, δ)-differentially private under zeroing out one user.
///
/// # Errors
/// As [`largest_mu`], and [`AccountingError::Invalid`] unless the sensitivity is finite and positive.
pub fn calibrate_gaussian(sensitivity: f64, epsilon: f64, delta: f64) -> Result<f64> {
    positive("sensitivity", sensitivity)?;
    let sigma = sensitivity / largest_mu(epsilon, delta)?;
    // The division may round down; one step up keeps the promise.
    positive("noise multiplier", sigma.next_up())
}

/// The neighbouring floats (below, at) where a monotone predicate turns true between `low` and `high`.
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
