//! ChaCha streams: each block of samples has its own, so no number depends on threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Pairs of a block: their products L·w are one small matrix product.
pub(super) const PAIRS: usize = 64;
/// Samples of a block, those of a pair next to each other.
pub(super) const SAMPLES: usize = 2 * PAIRS;

/// The purpose of samples: those that verify must not be those that searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Samples to search with.
    Search,
    /// Samples to verify with.
    Verify,
}

/// The samples of one estimate: an even number of them, their seed and their purpose.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    /// The number of samples.
    pub samples: u64,
    /// The seed of their streams.
    pub seed: u64,
    /// Their purpose, which selects half of the streams.
    pub purpose: Purpose,
}

impl Draw {
    /// Returns the number of blocks.
    pub fn blocks(self) -> u64 {
        self.samples.div_ceil(SAMPLES as u64)
    }

    /// Returns the stream of a block and its number of samples.
    pub fn begin(self, index: u64) -> (ChaCha8Rng, usize) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(u64::from(self.purpose == Purpose::Verify) << 63 | index);
        let left = self.samples - index * SAMPLES as u64;
        (random, left.min(SAMPLES as u64) as usize)
    }
}

/// Returns a uniform number in [0, 1) from 53 bits.
pub(super) fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 * (-53.0_f64).exp2()
}

/// Returns a uniform integer in 0…count−1.
pub(super) fn below(bits: u64, count: usize) -> usize {
    ((u128::from(bits) * count as u128) >> 64) as usize
}
