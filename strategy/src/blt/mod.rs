//! Buffered linear Toeplitz strategies: c_0 = 1, c_i = Σ_j ω_j θ_j^{i−1} (McMahan, Xu, Zhang 2024).

mod cascade;
mod decoder;
mod error_slopes;
mod interlaced;
mod kernels;
mod roots;
mod sensitivity;
mod series_error;
#[cfg(test)]
mod tests;

use crate::error::{Result, all_finite, invalid};
use crate::participation::{Errors, Participation, Sensitivity};
use crate::series;

pub(crate) use decoder::error_squared;
pub(crate) use error_slopes::Rows;
pub(crate) use interlaced::{weights, weights_adjoint};
pub(crate) use sensitivity::{sensitivity_slopes, sensitivity_squared};
pub(crate) use series_error::weighted_error;

/// Most buffers a BLT may have.
pub const MAX_BUFFERS: usize = 15;

/// A BLT strategy: `theta[j]` in (0, 1] are the decays and `omega[j]` > 0 the output weights of its buffers.
#[derive(Debug, Clone, PartialEq)]
pub struct Blt {
    theta: Vec<f64>,
    omega: Vec<f64>,
}

impl Blt {
    /// Returns a BLT from its decays and weights, one of each per buffer.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] when the lengths differ, there are no buffers or more than
    /// [`MAX_BUFFERS`], a θ is outside (0, 1] or an ω is not positive.
    pub fn new(theta: Vec<f64>, omega: Vec<f64>) -> Result<Self> {
        if theta.is_empty() || theta.len() > MAX_BUFFERS {
            return Err(invalid("number of buffers", theta.len(), format!("1 to {MAX_BUFFERS}")));
        }
        if omega.len() != theta.len() {
            return Err(invalid("number of omega", omega.len(), format!("{}, one per theta", theta.len())));
        }
        all_finite("theta", &theta)?;
        all_finite("omega", &omega)?;
        if let Some(t) = theta.iter().find(|t| **t <= 0.0 || **t > 1.0) {
            return Err(invalid("theta", t, "0 < theta ≤ 1"));
        }
        if let Some(w) = omega.iter().find(|w| **w <= 0.0) {
            return Err(invalid("omega", w, "omega > 0"));
        }
        Ok(Self { theta, omega })
    }

    /// Returns the decays θ, one per buffer, each in (0, 1].
    #[must_use]
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// Returns the output weights ω, one per buffer, each positive.
    #[must_use]
    pub fn omega(&self) -> &[f64] {
        &self.omega
    }

    /// Returns the number of buffers d.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.theta.len()
    }

    /// Returns whether Σω ≤ 1, so that c_1 ≤ c_0 and the whole column is non-increasing (Theorem 3.1 holds).
    #[must_use]
    pub fn is_monotone(&self) -> bool {
        self.omega.iter().sum::<f64>() <= 1.0
    }

    /// Returns the BLT that is this one's inverse, as (θ̂, ω̂): C⁻¹ has c_i = Σ_j ω̂_j θ̂_j^{i−1}, with ω̂ < 0.
    ///
    /// θ̂ are the eigenvalues of diag(θ) − 1ωᵀ and ω̂ their weights (McMahan, Xu, Zhang 2024, Alg. 5, in
    /// the product form). Buffers with equal θ act as one, so there may be fewer pairs than buffers.
    #[must_use]
    pub fn inverse(&self) -> (Vec<f64>, Vec<f64>) {
        let poles = roots::Poles::of(&self.theta, &self.omega);
        let weights = weights(&poles.phi_hat, &poles.phi);
        (poles.phi_hat.iter().map(|p| 1.0 - p).collect(), weights)
    }

    /// Returns the exact sens(C) per unit clip norm for participations with j − i ≥ `min_sep`; O(d² log k), whatever
    /// n is.
    ///
    /// Past c_0 the column never rises, which is enough for (0, b, 2b, …) to be the worst pattern even where
    /// c_1 = Σω > c_0: products of c_0 with itself are on the diagonal alone.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for zero rounds or an unusable rule.
    pub fn sensitivity(&self, n: u64, rule: Participation) -> Result<Sensitivity> {
        rule.check()?;
        check_rounds(n)?;
        let phi = complement(&self.theta);
        Ok(Sensitivity::exact_squared(sensitivity_squared(&phi, &self.omega, n, rule)))
    }

    /// Returns the prefix-sum errors over `n` rounds in units of σζ; O(d²), whatever n is.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for zero rounds.
    pub fn errors(&self, n: u64) -> Result<Errors> {
        self.errors_with(n, &[0.0])
    }

    /// Errors for a workload 1/Π_w(1−ρ_w x), given the 1−ρ; O(d²), or O(d³ log n) where a ρ meets a θ̂.
    pub(crate) fn errors_with(&self, n: u64, ends: &[f64]) -> Result<Errors> {
        check_rounds(n)?;
        let poles = roots::Poles::of(&self.theta, &self.omega);
        let squared = |rows| error_squared(&poles.phi, &poles.phi_hat, ends, n, rows).squared;
        let last = squared(Rows::Last).sqrt();
        Ok(Errors { rms: squared(Rows::Mean).sqrt(), max: last, last })
    }

    /// Returns the first `count` coefficients of C.
    #[must_use]
    pub fn coefficients(&self, count: usize) -> Vec<f64> {
        series::blt_coefficients(&self.theta, &self.omega, count)
    }

    /// Returns the first `count` coefficients of C⁻¹.
    #[must_use]
    pub fn inverse_coefficients(&self, count: usize) -> Vec<f64> {
        series::blt_inverse_coefficients(&self.theta, &self.omega, count)
    }

    /// φ₁, φ̂₁, φ₂, … of a BLT whose φ̂ are all below one, equal decays merged, as [`Self::from_interlaced`] takes
    /// them.
    pub(crate) fn interlaced(&self) -> Vec<f64> {
        let poles = roots::Poles::of(&self.theta, &self.omega);
        poles.phi.iter().zip(&poles.phi_hat).flat_map(|(phi, phi_hat)| [*phi, *phi_hat]).collect()
    }

    /// The BLT with decays 1−φ and inverse decays 1−φ̂, where φ₁ < φ̂₁ < φ₂ < … < φ̂_d < 1.
    pub(crate) fn from_interlaced(phi: &[f64], phi_hat: &[f64]) -> Result<Self> {
        Self::new(complement(phi), weights(phi, phi_hat))
    }
}

fn complement(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| 1.0 - x).collect()
}

fn check_rounds(n: u64) -> Result<()> {
    if n == 0 { Err(invalid("iterations", n, "1 or more")) } else { Ok(()) }
}
