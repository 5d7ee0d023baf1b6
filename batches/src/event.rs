//! What an accountant has to be told, as plain data.
//!
//! Names and fields are those of `accounting`'s events and samplings where it has them, so that an account
//! needs a noise multiplier (and a strategy, where noise is correlated) and nothing else.

use serde::{Deserialize, Serialize};

use crate::neighbouring::Neighbouring;
use crate::scheme::{Partition, Scheme};

/// How batches were formed, whom that protects, and against which neighbours it may be accounted for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingEvent {
    #[serde(flatten)]
    pub sampling: SamplingLaw,
    /// Whose participation is meant: one record's, or one user's.
    pub unit: Unit,
    pub neighbouring: Vec<Neighbouring>,
    /// The account holds only where the number of records (or users) may be known.
    pub public_population: bool,
}

/// Whose participation is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Record,
    User,
}

/// The law of one unit's participations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SamplingLaw {
    /// `count` rounds.
    PoissonSampledGaussian {
        sampling_probability: f64,
        count: u64,
    },
    TruncatedPoissonGaussian {
        sampling_probability: f64,
        dataset_size: u64,
        batch_cap: u64,
        count: u64,
    },
    /// N(0, σ²) against N(Bin(G, q), σ²), `count` times.
    UserLevel {
        sampling_probability: f64,
        group_size: u64,
        count: u64,
    },
    CyclicPoisson {
        bands: u64,
        /// The average over all rounds.
        sampling_probability: f64,
        partition: Partition,
        iterations: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
    },
    /// The last epoch may be cut short by the iterations.
    BallsInBins {
        batches_per_epoch: u64,
        epochs: u64,
        iterations: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
    },
    BMinSep {
        min_sep: u64,
        sampling_probability: f64,
        warm_start: bool,
        iterations: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
    },
    RandomAllocation {
        participations: u64,
        batches_per_epoch: u64,
        epochs: u64,
        iterations: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
    },
    /// Nothing is amplified: participations are at least `min_sep` apart.
    AnyOrder {
        min_sep: u64,
        max_participations: u64,
        iterations: u64,
    },
}

impl SamplingEvent {
    /// `count`: records, or users.
    pub(crate) fn of(scheme: &Scheme, count: u64, iterations: u64) -> Self {
        let unit = if scheme.user_level() { Unit::User } else { Unit::Record };
        let scheme = match scheme {
            Scheme::Uls { users, .. } => users,
            other => other,
        };
        let sampling = sampling(scheme, count, iterations);
        Self { neighbouring: neighbouring(scheme), public_population: sized(scheme), sampling, unit }
    }
}

fn sampling(scheme: &Scheme, dataset_size: u64, iterations: u64) -> SamplingLaw {
    let count = iterations;
    let batch_cap = scheme.cap();
    match *scheme {
        Scheme::Poisson { sampling_probability, cap: None } => {
            SamplingLaw::PoissonSampledGaussian { sampling_probability, count }
        }
        Scheme::Poisson { sampling_probability, cap: Some(batch_cap) } => {
            SamplingLaw::TruncatedPoissonGaussian { sampling_probability, dataset_size, batch_cap, count }
        }
        Scheme::CyclicPoisson { bands, sampling_probability, partition, .. } => {
            SamplingLaw::CyclicPoisson { bands, sampling_probability, partition, iterations, batch_cap }
        }
        Scheme::BallsInBins { batches_per_epoch, .. } => {
            let epochs = iterations.div_ceil(batches_per_epoch);
            SamplingLaw::BallsInBins { batches_per_epoch, epochs, iterations, batch_cap }
        }
        Scheme::BMinSep { min_sep, sampling_probability, warm_start, .. } => {
            SamplingLaw::BMinSep { min_sep, sampling_probability, warm_start, iterations, batch_cap }
        }
        Scheme::RandomAllocation { batches_per_epoch, participations, .. } => {
            let epochs = iterations.div_ceil(batches_per_epoch);
            SamplingLaw::RandomAllocation { participations, batches_per_epoch, epochs, iterations, batch_cap }
        }
        Scheme::FixedOrder { min_sep } => {
            SamplingLaw::AnyOrder { min_sep, max_participations: iterations.div_ceil(min_sep), iterations }
        }
        Scheme::Els { group_size, sampling_probability } => {
            SamplingLaw::UserLevel { sampling_probability, group_size, count }
        }
        Scheme::Uls { ref users, .. } => sampling(users, dataset_size, iterations),
    }
}

/// A cut or an equal split lets one record more or less move others, so its account can't be that of adding
/// or removing one. Truncated Poisson rounds are the exception: their account reckons with the moves.
fn neighbouring(scheme: &Scheme) -> Vec<Neighbouring> {
    use Neighbouring::{AddRemove, Replace, ZeroOut};
    let truncated_poisson = matches!(scheme, Scheme::Poisson { .. });
    if sized(scheme) && !truncated_poisson {
        vec![ZeroOut, Replace]
    } else {
        vec![ZeroOut, AddRemove, Replace]
    }
}

/// Whether batches depend on how many records there are.
fn sized(scheme: &Scheme) -> bool {
    let split = matches!(
        scheme,
        Scheme::CyclicPoisson { partition: Partition::EqualSplit, .. } | Scheme::FixedOrder { .. }
    );
    split || scheme.cap().is_some()
}
