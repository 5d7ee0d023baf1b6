//! One mechanism of a suggestion, with its figures.

use serde::Serialize;
use strategy::Strategy;

use crate::sampling::Sampling;

/// A mechanism in the setting of a request.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The mechanism's name in plan.toml.
    pub mechanism: &'static str,
    /// Bands of C or of C⁻¹, or buffers; `None` where there is no such number.
    pub size: Option<u64>,
    /// The optimized strategy.
    #[serde(skip)]
    pub strategy: Strategy,
    /// The way batches are formed.
    #[serde(skip)]
    pub sampling: Sampling,
    /// The name of [`Self::sampling`].
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
    /// Bytes of state that a worker keeps for each coordinate.
    pub state_bytes_per_parameter: u64,
    /// Bytes of state of the largest shard.
    pub state_bytes_per_worker: u64,
    /// True where the state is within the memory that the request allows.
    pub fits: bool,
    /// ε where the sampling's assumption fails: a quarter less min_sep (and as many more participations), or cyclic
    /// batches whose records were not sampled at all; `None` for a min_sep of 1, which can't be smaller.
    pub epsilon_if_assumption_fails: Option<f64>,
    /// Loss over the first half of the rounds relative to the same mechanism made for half the rounds, less one; `None`
    /// where there is no such mechanism.
    pub excess_at_half: Option<f64>,
    /// False where the search ran out of steps; the entry is then the best point found. A search of general bands counts as
    /// converged once ten steps together gained less than 0.01 % of the loss.
    pub converged: bool,
    /// True where the caller ended the search.
    pub stopped: bool,
    /// Seconds that the search took.
    pub seconds: f64,
}

impl Entry {
    /// Returns the mechanism with its size, such as `blt 3`.
    #[must_use]
    pub fn name(&self) -> String {
        match self.size {
            Some(size) => format!("{} {size}", self.mechanism),
            None => self.mechanism.to_owned(),
        }
    }
}
