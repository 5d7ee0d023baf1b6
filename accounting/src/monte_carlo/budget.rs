//! The number of samples of an estimate, and their seed.

use super::stream::{Draw, Purpose};
use crate::error::{AccountingError, Result};

/// Most samples of one estimate, 2³⁰; every block has one stream, and their indices stay far from the end of u64.
pub const MAX_SAMPLES: u64 = 1 << 30;
/// Fewest samples of one estimate: the variance of fewer is too uncertain.
pub const MIN_SAMPLES: u64 = 256;
/// Samples of the pilot run in which a search finds out where to look.
pub(super) const PILOT_SAMPLES: u64 = 1 << 14;

/// The number of samples of an estimate, in antithetic pairs (an odd number is rounded up), and the seed of their streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleBudget {
    /// [`MIN_SAMPLES`] to [`MAX_SAMPLES`].
    pub samples: u64,
    /// The seed that all samples are a function of. A verdict is worthless if seeds were tried until one released.
    pub seed: u64,
}

impl Default for SampleBudget {
    fn default() -> Self {
        Self { samples: 1 << 20, seed: 0 }
    }
}

impl SampleBudget {
    pub(super) fn draw(self, purpose: Purpose) -> Result<Draw> {
        if !(MIN_SAMPLES..=MAX_SAMPLES).contains(&self.samples) {
            let allowed = "256 to 1073741824";
            return Err(AccountingError::Invalid { what: "samples", value: self.samples as f64, allowed });
        }
        Ok(Draw { samples: self.samples.next_multiple_of(2), seed: self.seed, purpose })
    }
}
