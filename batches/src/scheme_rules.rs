//! The ranges of a scheme's numbers, and the populations that it suits.

use crate::error::{BatchError, MAX_RECORDS, Result, invalid, within};
use crate::population::Population;
use crate::scheme::Scheme;
use crate::skips;

impl Scheme {
    /// Refuses a population of the wrong kind, or one that is too large.
    pub(crate) fn check_population(&self, population: &Population) -> Result<()> {
        let why = match (population, self) {
            (Population::Owners(_), Self::ContributionBound { .. } | Self::Els { .. }) => return Ok(()),
            (Population::Owners(_), _) => {
                "has no bound on the records of owners; allowed for records with several owners: \
                 contribution-bound, and poisson with els, a bound on the records of each"
            }
            (_, Self::ContributionBound { .. }) => "needs to know the owners of each record",
            (Population::Records(_), _) if self.user_level() => {
                "needs to know how many records each user owns"
            }
            (Population::Records(records), _) if *records > MAX_RECORDS => {
                return Err(invalid("population", records, "at most 2^53"));
            }
            (Population::Records(_), _) => return Ok(()),
            (Population::Users(_), _) if self.user_level() => return Ok(()),
            (Population::Users(_), _) => "samples records, not users; put it within user-level sampling",
        };
        Err(BatchError::Mismatch { scheme: self.name(), why })
    }

    /// Checks that every number is in its range.
    ///
    /// # Errors
    /// [`BatchError::Invalid`] naming the number and its range; [`BatchError::Mismatch`] for user-level sampling within
    /// user-level sampling.
    pub fn validate(&self) -> Result<()> {
        if let Some(cap) = self.cap() {
            let what = if matches!(self, Self::ContributionBound { .. }) { "batch size" } else { "cap" };
            within(what, cap, (1, MAX_RECORDS), "1 to 2^53")?;
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
            Self::ContributionBound { min_sep, max_participations, records_per_batch, .. } => {
                counted("min-sep", *min_sep)?;
                counted("max-participations", *max_participations)?;
                counted("records per batch", *records_per_batch)
            }
            Self::Els { group_size, sampling_probability } => {
                group(*group_size)?;
                sampling(*sampling_probability)
            }
            Self::Uls { users, .. }
                if users.user_level() || matches!(**users, Self::ContributionBound { .. }) =>
            {
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

/// Returns p·q as accounts compute it: at most 1, and 1 where rounding exceeds it.
pub(crate) fn group_probability(bands: u64, sampling_probability: f64) -> Result<f64> {
    let product = bands as f64 * sampling_probability;
    if product > 1.0 + 1e-12 {
        return Err(invalid("bands times sampling probability", product, "at most 1"));
    }
    Ok(product.min(1.0))
}
