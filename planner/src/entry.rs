//! One mechanism of a suggestion, with its figures.

use serde::Serialize;
use strategy::Strategy;

use crate::sampling::Sampling;

/// A mechanism in the setting of a request.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// As plan.toml names it.
    pub mechanism: &'static str,
    /// Bands of C or of C⁻¹, or buffers; none where there is no such number.
    pub size: Option<u64>,
    #[serde(skip)]
    pub strategy: Strategy,
    #[serde(skip)]
    pub sampling: Sampling,
    #[serde(rename = "sampling")]
    pub sampling_name: &'static str,
    /// sens(C) per unit clip norm under the sampling's rule; of one participation for cyclic Poisson.
    pub sensitivity: f64,
    /// False where the sensitivity is an upper bound.
    pub sensitivity_exact: bool,
    /// Error of the released rows times sens(C), of the request's objective.
    pub loss: f64,
    /// σ for the request's (ε, δ).
    pub noise_multiplier: f64,
    /// σ × error of the released rows, in units of the clip norm: what entries are ranked by.
    pub error: f64,
    /// `f32` numbers of state that a worker keeps for each coordinate.
    pub state_bytes_per_parameter: u64,
    pub state_bytes_per_worker: u64,
    /// Within the memory that the request allows.
    pub fits: bool,
    /// ε where the sampling's assumption fails: a quarter less min_sep (and as many more participations), or cyclic
    /// batches whose records were not sampled at all.
    pub epsilon_if_assumption_fails: Option<f64>,
    /// Loss over the first half of the rounds relative to the same mechanism made for half the rounds, less one; none
    /// where that can't be made.
    pub excess_at_half: Option<f64>,
    /// False where the search ran out of steps; the best point found is given.
    pub converged: bool,
    /// True where the caller ended the search.
    pub stopped: bool,
    /// Seconds that the search took.
    pub seconds: f64,
}
