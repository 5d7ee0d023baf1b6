//! Zero-concentrated DP: ρ of a Gaussian mechanism, and conversions of ρ to (ε, δ).
//!
//! There are two conversions, not to be confused: [`gaussian_epsilon`] is exact and holds for Gaussian mechanisms only
//! (McMahan, Xu, Zhang 2024 and Xu et al. 2023 print it); [`generic_epsilon`] holds for any ρ-zCDP mechanism and is
//! larger.

use crate::error::{Result, not_negative, positive, probability};
use crate::gaussian::{self, bisect};

/// Returns ρ = sens²/(2σ²), with the sensitivity per unit clip norm.
///
/// # Errors
/// [`crate::AccountingError::Invalid`] unless both are finite, the sensitivity ≥ 0 and σ > 0.
pub fn rho(sensitivity: f64, noise_multiplier: f64) -> Result<f64> {
    not_negative("sensitivity", sensitivity)?;
    positive("noise multiplier", noise_multiplier)?;
    let mu = sensitivity / noise_multiplier;
    not_negative("rho", if mu > 0.0 { 0.5 * squared(mu) } else { 0.0 })
}

/// Returns μ², but at least the smallest normal f64: below it the square would lose its digits or vanish.
pub(crate) fn squared(mu: f64) -> f64 {
    (mu * mu).max(f64::MIN_POSITIVE)
}

/// Returns the exact ε at `delta` of the Gaussian mechanism with this ρ, μ = √(2ρ).
///
/// # Errors
/// [`crate::AccountingError::Invalid`] unless ρ ≥ 0 is finite and 0 < δ < 1.
pub fn gaussian_epsilon(rho: f64, delta: f64) -> Result<f64> {
    if not_negative("rho", rho)? == 0.0 {
        probability("delta", delta)?;
        return Ok(0.0);
    }
    gaussian::epsilon(delta, (2.0 * rho).sqrt())
}

/// Returns the exact δ at `epsilon` of the Gaussian mechanism with this ρ, μ = √(2ρ).
///
/// # Errors
/// [`crate::AccountingError::Invalid`] unless both are finite, ε ≥ 0 and ρ ≥ 0.
pub fn gaussian_delta(rho: f64, epsilon: f64) -> Result<f64> {
    if not_negative("rho", rho)? == 0.0 {
        not_negative("epsilon", epsilon)?;
        return Ok(0.0);
    }
    gaussian::delta(epsilon, (2.0 * rho).sqrt())
}

/// Returns a δ at which any ρ-zCDP mechanism is (ε, δ)-DP, by the tightest order α:
/// δ = inf_{α>1} e^{(α−1)(αρ−ε)}/(α−1)·(1−1/α)^α (Canonne, Kamath and Steinke 2020, Proposition 12).
///
/// # Errors
/// [`crate::AccountingError::Invalid`] unless both are finite, ε ≥ 0 and ρ ≥ 0.
pub fn generic_delta(rho: f64, epsilon: f64) -> Result<f64> {
    not_negative("rho", rho)?;
    not_negative("epsilon", epsilon)?;
    if rho == 0.0 {
        return Ok(0.0);
    }
    // The derivative of ln δ in α is (2α−1)ρ − ε + ln(1−1/α). It rises from −∞, and at (ε+1)/(2ρ) + 2 it is at
    // least 1 + 3ρ − ln 2 > 0, so the best α lies between.
    let slope = |alpha: f64| (2.0 * alpha - 1.0) * rho - epsilon + (-1.0 / alpha).ln_1p();
    let (_, alpha) = bisect(1.0, (epsilon + 1.0) / (2.0 * rho) + 2.0, |a| slope(a) > 0.0);
    let ln = (alpha - 1.0) * (alpha * rho - epsilon) + alpha * (-1.0 / alpha).ln_1p() - (alpha - 1.0).ln();
    Ok(if ln.is_nan() { 1.0 } else { ln.exp().min(1.0) })
}

/// Returns an ε at which any ρ-zCDP mechanism is (ε, `delta`)-DP; never below [`gaussian_epsilon`].
///
/// # Errors
/// [`crate::AccountingError::Invalid`] unless ρ ≥ 0 is finite and 0 < δ < 1.
pub fn generic_epsilon(rho: f64, delta: f64) -> Result<f64> {
    not_negative("rho", rho)?;
    let goal = probability("delta", delta)?;
    if generic_delta(rho, 0.0)? <= goal {
        return Ok(0.0);
    }
    let high = (rho + 2.0 * (rho * -goal.ln()).sqrt()) * (1.0 + 1e-12);
    not_negative("rho", high)?;
    Ok(bisect(0.0, high, |e| generic_delta(rho, e).is_ok_and(|d| d <= goal)).1)
}
