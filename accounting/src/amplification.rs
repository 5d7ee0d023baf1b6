//! Amplification by sampling, for loops that need many figures: on coarser grids than [`crate::pld::ACCURACY`], and
//! never below the exact figure either.
//!
//! Cyclic Poisson sampling with p bands: records are put into p groups **independently of the data**, group r is
//! sampled in rounds ≡ r (mod p) alone, each record with probability p·q. Then the contributions of a record fall on
//! columns of C that do not overlap, and the run costs as much as one of DP-SGD with ⌈n/p⌉ rounds, sampling
//! probability p·q and noise multiplier σ / (largest column norm). Groups of one size
//! ([`Partition::EqualSplit`](crate::Partition)) depend on the number of records, so they hold for zeroing out and
//! replacing only; groups drawn for each record independently ([`Partition::Independent`](crate::Partition)) hold for
//! adding and removing too. The reduction is that of Choquette-Choo et al. (2023, arXiv:2306.08153).

use crate::error::{AccountingError, Result, positive, probability};
use crate::neighbouring::{Direction, Neighbouring};
use crate::pld::{Composition, Pair, Profile, sampling};
use crate::search::{self, Range};
use crate::{calibrate_gaussian, gaussian};

/// Relative accuracy of ε in loops.
const LOOP_ACCURACY: f64 = 5e-4;

/// Relative accuracy of ε in a calibration, which runs less often.
const CALIBRATION_ACCURACY: f64 = 1e-4;

/// Returns the privacy profile of Poisson-sampled rounds.
///
/// # Errors
/// [`AccountingError::Invalid`] unless σ > 0 and 0 < q ≤ 1.
pub fn profile(
    noise_multiplier: f64,
    sampling_probability: f64,
    rounds: u64,
    neighbouring: Neighbouring,
) -> Result<Profile> {
    let side = |direction| {
        let pair = Pair::poisson(noise_multiplier, sampling_probability, neighbouring, direction)?;
        Composition::repeated(pair, rounds)
    };
    Ok(Profile { remove: side(Direction::Remove)?, add: side(Direction::Add)? })
}

/// Returns ε at `delta` of `rounds` Poisson-sampled rounds, at most about 0.05 % above the exact one and never below,
/// under zeroing out, adding or removing one record.
///
/// # Errors
/// [`AccountingError::Invalid`] unless σ > 0, 0 < q ≤ 1 and 0 < δ < 1.
pub fn epsilon(noise_multiplier: f64, sampling_probability: f64, rounds: u64, delta: f64) -> Result<f64> {
    probability("delta", delta)?;
    positive("noise multiplier", noise_multiplier)?;
    if sampling("sampling probability", sampling_probability)? == 1.0 && rounds > 0 {
        return gaussian::epsilon(delta, (rounds as f64).sqrt() / noise_multiplier);
    }
    let profile = profile(noise_multiplier, sampling_probability, rounds, Neighbouring::ZeroOut)?;
    Ok(profile.epsilon_figure(delta, LOOP_ACCURACY)?.value)
}

/// Returns p·q, which may exceed 1 by rounding only.
pub(crate) fn group_probability(bands: u64, sampling_probability: f64) -> Result<f64> {
    sampling("sampling probability", sampling_probability)?;
    let invalid = |what, value, allowed| AccountingError::Invalid { what, value, allowed };
    if bands == 0 {
        return Err(invalid("bands", 0.0, "1 or more"));
    }
    let product = bands as f64 * sampling_probability;
    if product > 1.0 + 1e-12 {
        return Err(invalid("bands times sampling probability", product, "at most 1"));
    }
    Ok(product.min(1.0))
}

/// Returns the smallest noise multiplier (within 0.02 % of ε) of a p-banded strategy, columns of norm ≤ 1, with which
/// `iterations` rounds of cyclic Poisson sampling at average per-round rate q are (ε, δ).
///
/// # Errors
/// [`AccountingError::Invalid`] for numbers out of range and p·q > 1; [`AccountingError::OutOfReach`] where no
/// noise multiplier from 1e-3 to 1e9 will do.
pub fn band_mf_noise_multiplier(
    target_epsilon: f64,
    delta: f64,
    bands: u64,
    sampling_probability: f64,
    iterations: u64,
) -> Result<f64> {
    let q = group_probability(bands, sampling_probability)?;
    noise_multiplier(target_epsilon, delta, q, iterations.div_ceil(bands), CALIBRATION_ACCURACY)
}

/// Returns the smallest noise multiplier (within 0.02 % of ε) of Poisson-sampled rounds for an (ε, δ).
pub(crate) fn noise_multiplier(
    target: f64,
    delta: f64,
    sampling_probability: f64,
    rounds: u64,
    accuracy: f64,
) -> Result<f64> {
    positive("epsilon", target)?;
    probability("delta", delta)?;
    if rounds == 0 {
        let allowed = "1 or more";
        return Err(AccountingError::Invalid { what: "rounds", value: 0.0, allowed });
    }
    if sampling_probability == 1.0 {
        return calibrate_gaussian((rounds as f64).sqrt(), target, delta);
    }
    let at = |sigma: f64| profile(sigma, sampling_probability, rounds, Neighbouring::ZeroOut);
    from_rough(target, delta, 1.0, at, accuracy)
}

/// Searches by the rough ε first, which is a thousand times as fast, then by the near-exact one from there.
pub(crate) fn from_rough(
    target: f64,
    delta: f64,
    start: f64,
    profile: impl Fn(f64) -> Result<Profile>,
    accuracy: f64,
) -> Result<f64> {
    let range = Range { what: "noise multiplier", start, least: 1e-3, most: 1e9 };
    let rough = search::smallest(range, target, |sigma| Ok(profile(sigma)?.rough_epsilon(delta)));
    // The rough ε is no bound, so its failure refuses nothing.
    let start = rough.unwrap_or(start);
    let exact = |sigma| Ok(profile(sigma)?.epsilon_figure(delta, accuracy)?.value);
    search::smallest(Range { start, ..range }, target, exact)
}
