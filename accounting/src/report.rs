//! The guarantee of one strategy without sampling, in one struct.

use serde::{Deserialize, Serialize};
use strategy::{Participation, Sensitivity, Strategy};

use crate::error::Result;
use crate::{gaussian, zcdp};

/// The privacy of one run, under zeroing out all participations of one user.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// ε at `delta`, exact for the Gaussian mechanism of this ρ.
    pub epsilon: f64,
    /// The δ at which ε holds.
    pub delta: f64,
    /// ρ = sens²/(2σ²) of zero-concentrated DP.
    pub rho: f64,
    /// σ: the noise's standard deviation in units of the clip norm, before C⁻¹.
    pub noise_multiplier: f64,
    /// sens(C) per unit clip norm.
    pub sensitivity: f64,
    /// False when the sensitivity, and so ε and ρ, are upper bounds.
    pub exact: bool,
}

impl Report {
    /// Computes the report of a mechanism with this sensitivity and noise multiplier σ, at `delta`.
    ///
    /// # Errors
    /// [`crate::AccountingError`] for unusable numbers.
    pub fn at_delta(sensitivity: Sensitivity, noise_multiplier: f64, delta: f64) -> Result<Self> {
        Self::of_run(sensitivity, noise_multiplier, 0.0, delta)
    }

    /// Computes the report of a run that leaves this mechanism with a probability of at most `failure`, whichever the data;
    /// see [`failure`](crate::failure).
    ///
    /// # Errors
    /// [`crate::AccountingError`] for unusable numbers, and where failure alone is more than δ allows.
    pub fn of_run(sensitivity: Sensitivity, noise_multiplier: f64, failure: f64, delta: f64) -> Result<Self> {
        let rho = zcdp::rho(sensitivity.value, noise_multiplier)?;
        let own = |delta| zcdp::gaussian_epsilon(rho, delta);
        let epsilon = crate::failure::at_delta(delta, failure, own, |epsilon| *epsilon)?;
        Ok(Self {
            epsilon,
            delta,
            rho,
            noise_multiplier,
            sensitivity: sensitivity.value,
            exact: sensitivity.exact,
        })
    }
}

/// Returns the report of `strategy` over `n` rounds with noise multiplier σ, under the participation `rule`.
///
/// # Errors
/// [`crate::AccountingError`] for unusable numbers.
pub fn account(
    strategy: &Strategy,
    n: u64,
    rule: Participation,
    noise_multiplier: f64,
    delta: f64,
) -> Result<Report> {
    Report::at_delta(strategy.sensitivity(n, rule)?, noise_multiplier, delta)
}

/// Returns the report of `strategy` with the smallest noise multiplier that makes it (ε, δ)-private.
///
/// # Errors
/// [`crate::AccountingError`] for unusable numbers.
pub fn calibrate(
    strategy: &Strategy,
    n: u64,
    rule: Participation,
    epsilon: f64,
    delta: f64,
) -> Result<Report> {
    let sensitivity = strategy.sensitivity(n, rule)?;
    let sigma = gaussian::calibrate_gaussian(sensitivity.value, epsilon, delta)?;
    Report::at_delta(sensitivity, sigma, delta)
}
