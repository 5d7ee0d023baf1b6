//! What training on users asks of the accountant: example-level sampling, adaptive clipping, secure aggregation.

use accounting::calibration::{self, Target};
use accounting::{Event, clipping, user_level};
use pyo3::prelude::*;

use crate::account::neighbouring;
use crate::error::Result;

/// `rounds` rounds in which each of a user's at most `group_size` records takes part with probability q, JSON.
#[pyfunction]
pub fn user_level_event(
    noise_multiplier: f64,
    sampling_probability: f64,
    group_size: u64,
    rounds: u64,
) -> Result<String> {
    let round = user_level::round(noise_multiplier, sampling_probability, group_size)?;
    Ok(serde_json::to_string(&round.times(rounds))?)
}

/// The smallest noise multiplier that keeps (ε, δ) over such rounds. `users`: (q, G, rounds).
#[pyfunction]
pub fn user_level_noise_multiplier(
    py: Python<'_>,
    users: (f64, u64, u64),
    promise: (f64, f64),
    relation: &str,
) -> Result<f64> {
    let (sampling_probability, group_size, rounds) = users;
    let (epsilon, delta) = promise;
    let target = Target { epsilon, delta, neighbouring: neighbouring(relation)? };
    let event = |sigma| -> accounting::Result<Event> {
        Ok(user_level::round(sigma, sampling_probability, group_size)?.times(rounds))
    };
    py.detach(|| Ok(calibration::noise_multiplier(target, event)?))
}

/// What the updates' noise multiplier must be where clipped bits take a part of the privacy.
#[pyfunction]
pub fn adaptive_noise_multiplier(noise_multiplier: f64, bit_noise: f64) -> Result<f64> {
    Ok(clipping::adaptive_noise_multiplier(noise_multiplier, bit_noise)?)
}

/// The clip norm to account with where updates are rounded to a grid of step 1/scale.
#[pyfunction]
pub fn inflated_clip_norm(clip_norm: f64, scale: f64, padded_dimension: u64) -> Result<f64> {
    Ok(clipping::inflated_clip_norm(clip_norm, scale, padded_dimension)?)
}
