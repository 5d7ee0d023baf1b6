//! The description of batches for an accountant, as plain data.
//!
//! Names and fields are those of the events of `accounting` where it has them, so that an account needs a noise multiplier
//! (and a strategy, where noise is correlated) and nothing else.

use serde::{Deserialize, Serialize};

use crate::account_kind::AccountKind;
use crate::neighbouring::Neighbouring;
use crate::scheme::{Partition, Scheme};

/// A description of how batches were formed, the unit of privacy, and the neighbouring relations that an account may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingEvent {
    /// The law of the unit's participations.
    #[serde(flatten)]
    pub sampling: SamplingLaw,
    /// The unit whose participations are described.
    pub unit: Unit,
    /// The account that these batches have, by which their relations follow.
    pub account: AccountKind,
    /// The relations under which the account holds.
    pub neighbouring: Vec<Neighbouring>,
    /// True where the account requires that the number of records (or users) is public.
    pub public_population: bool,
}

/// The unit whose participations are accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One record.
    Record,
    /// All records of one user.
    User,
    /// All records of one owner, also those that others own too.
    Owner,
}

/// The law of one unit's participations: which rounds it takes, with which probabilities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SamplingLaw {
    /// Poisson sampling.
    PoissonSampledGaussian {
        /// q, in each round.
        sampling_probability: f64,
        /// The number of rounds.
        count: u64,
    },
    /// Poisson sampling with a cap on batches.
    TruncatedPoissonGaussian {
        /// q, in each round.
        sampling_probability: f64,
        /// The public number of records or users.
        dataset_size: u64,
        /// The most records of a batch.
        batch_cap: u64,
        /// The number of rounds.
        count: u64,
    },
    /// Example-level sampling: N(0, σ²) against N(Bin(G, q), σ²) in each round.
    UserLevel {
        /// q of each record, in each round.
        sampling_probability: f64,
        /// G, the most records of one user.
        group_size: u64,
        /// The number of rounds.
        count: u64,
    },
    /// Cyclic Poisson sampling.
    CyclicPoisson {
        /// p, the number of groups.
        bands: u64,
        /// q, the average over all rounds.
        sampling_probability: f64,
        /// The way in which records were put into groups.
        partition: Partition,
        /// The number of rounds.
        iterations: u64,
        /// The most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
        /// The public number of records or users, where there is a cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dataset_size: Option<u64>,
    },
    /// Balls-in-bins batches. The iterations may cut the last epoch short.
    BallsInBins {
        /// b, the batches of an epoch.
        batches_per_epoch: u64,
        /// The number of epochs, the last one perhaps cut short.
        epochs: u64,
        /// The number of rounds.
        iterations: u64,
        /// The most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
    },
    /// b-min-sep batches.
    BMinSep {
        /// b, the least distance of two rounds of a unit.
        min_sep: u64,
        /// q of a unit that may join.
        sampling_probability: f64,
        /// True where the process is stationary from round 0 on.
        warm_start: bool,
        /// The number of rounds.
        iterations: u64,
        /// The most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
    },
    /// Random allocation.
    RandomAllocation {
        /// k, the rounds of a unit in each epoch.
        participations: u64,
        /// b, the batches of an epoch.
        batches_per_epoch: u64,
        /// The number of epochs, the last one perhaps cut short.
        epochs: u64,
        /// The number of rounds.
        iterations: u64,
        /// The most records of a batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_cap: Option<u64>,
    },
    /// A fixed order, or any other: nothing is amplified.
    AnyOrder {
        /// The least distance of two rounds of a unit.
        min_sep: u64,
        /// The most rounds of a unit.
        max_participations: u64,
        /// The number of rounds.
        iterations: u64,
        /// The most records of a unit in one round; the sensitivity is as many times as large.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        records_per_batch: u64,
    },
}

fn one() -> u64 {
    1
}

fn is_one(value: &u64) -> bool {
    *value == 1
}

/// The participation that all units keep, on which an account without amplification rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Participation {
    /// The least distance of two rounds of a unit.
    pub min_sep: u64,
    /// The most rounds of a unit.
    pub max_participations: u64,
    /// The most records of a unit in one round.
    pub records_per_batch: u64,
}

impl SamplingEvent {
    /// Describes a scheme over `count` records, or users; `owned`: whether records have several owners, the unit.
    pub(crate) fn new(scheme: &Scheme, count: u64, iterations: u64, owned: bool) -> Self {
        let unit = match scheme {
            _ if owned => Unit::Owner,
            scheme if scheme.user_level() => Unit::User,
            _ => Unit::Record,
        };
        let scheme = match scheme {
            Scheme::Uls { users, .. } => users,
            other => other,
        };
        let sampling = sampling(scheme, count, iterations);
        let account = AccountKind::of(scheme);
        let mut neighbouring = account.relations().to_vec();
        // One owner more changes which records of others are kept.
        neighbouring.retain(|relation| !owned || *relation != Neighbouring::AddRemove);
        Self { sampling, unit, account, neighbouring, public_population: owned || sized(scheme) }
    }

    /// Returns the participation that every unit keeps, whatever was drawn.
    #[must_use]
    pub fn participation(&self) -> Participation {
        let every = |min_sep: u64, iterations: u64| (min_sep, iterations.div_ceil(min_sep), 1);
        let (min_sep, max_participations, records_per_batch) = match self.sampling {
            SamplingLaw::PoissonSampledGaussian { count, .. }
            | SamplingLaw::TruncatedPoissonGaussian { count, .. } => (1, count, 1),
            SamplingLaw::UserLevel { group_size, count, .. } => (1, count, group_size),
            SamplingLaw::CyclicPoisson { bands, iterations, .. } => every(bands, iterations),
            SamplingLaw::BallsInBins { batches_per_epoch, iterations, .. } => {
                every(batches_per_epoch, iterations)
            }
            SamplingLaw::BMinSep { min_sep, iterations, .. } => every(min_sep, iterations),
            SamplingLaw::RandomAllocation { participations, epochs, iterations, .. } => {
                (1, participations.saturating_mul(epochs).min(iterations), 1)
            }
            SamplingLaw::AnyOrder { min_sep, max_participations, records_per_batch, .. } => {
                (min_sep, max_participations, records_per_batch)
            }
        };
        Participation { min_sep, max_participations, records_per_batch }
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
            let dataset_size = batch_cap.map(|_| dataset_size);
            SamplingLaw::CyclicPoisson {
                bands,
                sampling_probability,
                partition,
                iterations,
                batch_cap,
                dataset_size,
            }
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
            let max_participations = iterations.div_ceil(min_sep);
            SamplingLaw::AnyOrder { min_sep, max_participations, iterations, records_per_batch: 1 }
        }
        Scheme::ContributionBound { min_sep, max_participations, records_per_batch, .. } => {
            let max_participations = max_participations.min(iterations.div_ceil(min_sep));
            SamplingLaw::AnyOrder { min_sep, max_participations, iterations, records_per_batch }
        }
        Scheme::Els { group_size, sampling_probability } => {
            SamplingLaw::UserLevel { sampling_probability, group_size, count }
        }
        Scheme::Uls { ref users, .. } => sampling(users, dataset_size, iterations),
    }
}

/// Returns whether batches depend on the number of records.
fn sized(scheme: &Scheme) -> bool {
    let split = matches!(
        scheme,
        Scheme::CyclicPoisson { partition: Partition::EqualSplit, .. } | Scheme::FixedOrder { .. }
    );
    split || scheme.cap().is_some()
}
