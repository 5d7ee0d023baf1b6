//! How records join rounds.

use serde::{Deserialize, Serialize};

use crate::error::{BatchError, Result, invalid, within};
use crate::population::{MAX_RECORDS, Population};
use crate::skips;

/// A way of forming batches. Rounds count from 0, epoch e being rounds e·b to e·b + b − 1 of b batches an
/// epoch.
///
/// A cap B keeps a uniformly random B of a larger batch; a smaller one is to be padded to B with empty
/// records ([`crate::Batch::padding`]). Whoever is cut has taken part as far as the scheme goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scheme {
    /// Each record joins each round with probability q, on its own.
    Poisson {
        sampling_probability: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// p groups that don't depend on the data; of group r each record joins each round ≡ r (mod p) with
    /// probability p·q.
    CyclicPoisson {
        /// p: the bands of the strategy.
        bands: u64,
        /// q, the average over all rounds; p·q is at most 1.
        sampling_probability: f64,
        partition: Partition,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Each record gets one of b batches once, and joins that one in every epoch.
    BallsInBins {
        batches_per_epoch: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Each record joins a round with probability q, on its own, unless it joined one of the b − 1 before.
    BMinSep {
        /// b.
        min_sep: u64,
        /// q, of those that may join: on average a record joins q/(1 + q(b − 1)) of all rounds.
        sampling_probability: f64,
        /// Begins as if the run had been going on for ever, so that all rounds are alike; else with all free
        /// to join.
        warm_start: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Each record joins k rounds of each epoch of b: any k with equal probability, drawn anew every epoch.
    RandomAllocation {
        batches_per_epoch: u64,
        /// k, of each epoch.
        participations: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<u64>,
    },
    /// Shuffled once, cut into b batches of one size (or one more), taken in turn. Nothing is amplified.
    FixedOrder {
        /// b.
        min_sep: u64,
    },
    /// Example-level sampling of users: G records of each user, chosen once, each joining each round with
    /// probability q.
    Els { group_size: u64, sampling_probability: f64 },
    /// User-level sampling: users join by the inner scheme, each with G of their records, drawn anew every
    /// time.
    Uls { group_size: u64, users: Box<Scheme> },
}

/// How records are put into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partition {
    /// Groups of one size (or one more): for zeroing out and replacing only, as one record more moves others.
    EqualSplit,
    /// Each record at random and on its own: for every neighbouring relation.
    Independent,
}

impl Scheme {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Poisson { .. } => "poisson",
            Self::CyclicPoisson { .. } => "cyclic-poisson",
            Self::BallsInBins { .. } => "balls-in-bins",
            Self::BMinSep { .. } => "b-min-sep",
            Self::RandomAllocation { .. } => "random-allocation",
            Self::FixedOrder { .. } => "fixed-order",
            Self::Els { .. } => "els",
            Self::Uls { .. } => "uls",
        }
    }

    /// B; of user-level sampling, that of its users.
    #[must_use]
    pub fn cap(&self) -> Option<u64> {
        match self {
            Self::Poisson { cap, .. }
            | Self::CyclicPoisson { cap, .. }
            | Self::BallsInBins { cap, .. }
            | Self::BMinSep { cap, .. }
            | Self::RandomAllocation { cap, .. } => *cap,
            Self::FixedOrder { .. } | Self::Els { .. } => None,
            Self::Uls { users, .. } => users.cap(),
        }
    }

    /// Whether it needs a population of users.
    #[must_use]
    pub fn user_level(&self) -> bool {
        matches!(self, Self::Els { .. } | Self::Uls { .. })
    }

    /// Refuses a population of the wrong kind, or one that is too large.
    pub(crate) fn check_population(&self, population: &Population) -> Result<()> {
        let why = match (population, self.user_level()) {
            (Population::Records(records), false) if *records > MAX_RECORDS => {
                return Err(invalid("population", records, "at most 2^53"));
            }
            (Population::Records(_), false) | (Population::Users(_), true) => return Ok(()),
            (Population::Records(_), true) => "needs to know how many records each user owns",
            (Population::Users(_), false) => "samples records, not users; put it within user-level sampling",
        };
        Err(BatchError::Mismatch { scheme: self.name(), why })
    }

    /// Ok where every number is in its range.
    pub fn validate(&self) -> Result<()> {
        if let Some(cap) = self.cap() {
            within("cap", cap, (1, MAX_RECORDS), "1 to 2^53")?;
        }
        match self {
            Self::Poisson { sampling_probability, .. } => sampling(*sampling_probability),
            Self::CyclicPoisson { bands, sampling_probability, .. } => {
                counted("bands", *bands)?;
                sampling(*sampling_probability)?;
                group_probability(*bands, *sampling_probability).map(|_| ())
            }
            Self::BallsInBins { batches_per_epoch, .. } => counted("batches per epoch", *batches_per_epoch),
            Self::BMinSep { min_sep, sampling_probability, .. } => {
                counted("min-sep", *min_sep)?;
                sampling(*sampling_probability)
            }
            Self::RandomAllocation { batches_per_epoch, participations, .. } => {
                counted("batches per epoch", *batches_per_epoch)?;
                let allowed = "1 to the batches per epoch";
                within("participations", *participations, (1, *batches_per_epoch), allowed).map(|_| ())
            }
            Self::FixedOrder { min_sep } => counted("min-sep", *min_sep),
            Self::Els { group_size, sampling_probability } => {
                group(*group_size)?;
                sampling(*sampling_probability)
            }
            Self::Uls { users, .. } if users.user_level() => {
                Err(BatchError::Mismatch { scheme: "uls", why: "the scheme of its users must be of records" })
            }
            Self::Uls { group_size, users } => {
                group(*group_size)?;
                users.validate()
            }
        }
    }
}

fn sampling(q: f64) -> Result<()> {
    let allowed = "2^-40 (9.1e-13) to 1";
    if (skips::LEAST..=1.0).contains(&q) { Ok(()) } else { Err(invalid("sampling probability", q, allowed)) }
}

fn counted(what: &'static str, value: u64) -> Result<()> {
    within(what, value, (1, 1 << 32), "1 to 2^32").map(|_| ())
}

fn group(size: u64) -> Result<()> {
    within("group size", size, (1, 1 << 20), "1 to 2^20").map(|_| ())
}

/// p·q, just as accounts reckon it.
pub(crate) fn group_probability(bands: u64, sampling_probability: f64) -> Result<f64> {
    let product = bands as f64 * sampling_probability;
    if product > 1.0 + 1e-12 {
        return Err(invalid("bands times sampling probability", product, "at most 1"));
    }
    Ok(product.min(1.0))
}
