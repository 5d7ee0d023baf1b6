//! Poisson sampling.

use crate::seed::{Key, Keys};
use crate::skips::{SampledIndices, Skips};
use crate::source::Source;

/// Poisson sampling: each of 0..count with one probability, anew in every round. Round t comes from stream t.
pub(crate) struct Poisson {
    skips: Skips,
    key: Key,
    count: u64,
}

impl Poisson {
    pub fn new(keys: &Keys, q: f64, count: u64) -> Self {
        Self { skips: Skips::new(q, count), key: keys.derive("sample"), count }
    }

    /// Samples the records of a round.
    pub fn chosen(&self, round: u64) -> SampledIndices<'_> {
        self.chosen_of(round, self.count)
    }

    /// Samples among the first `count` records of a round.
    pub fn chosen_of(&self, round: u64, count: u64) -> SampledIndices<'_> {
        self.skips.chosen(self.key.draws(round), count.min(self.count))
    }
}

impl Source for Poisson {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        self.chosen(round).collect()
    }
}
