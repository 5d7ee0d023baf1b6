//! ChaCha streams: each block of samples has its own, so no number depends on threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Pairs of a block: their products L·w are one small matrix product.
pub(super) const PAIRS: usize = 64;
/// Samples of a block, those of a pair next to each other.
pub(super) const SAMPLES: usize = 2 * PAIRS;

/// Which numbers are drawn: what is searched with must not be what is then verified with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Search,
    Verify,
}

/// How many samples, an even number, from which random numbers.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    pub samples: u64,
    pub seed: u64,
    pub purpose: Purpose,
}

impl Draw {
    pub fn blocks(self) -> u64 {
        self.samples.div_ceil(SAMPLES as u64)
    }

    /// The stream of a block and its number of samples.
    pub fn begin(self, index: u64) -> (ChaCha8Rng, usize) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(u64::from(self.purpose == Purpose::Verify) << 63 | index);
        let left = self.samples - index * SAMPLES as u64;
        (random, left.min(SAMPLES as u64) as usize)
    }
}

/// In [0, 1), 53 bits.
pub(super) fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 * (-53.0_f64).exp2()
}

/// In 0…count−1.
pub(super) fn below(bits: u64, count: usize) -> usize {
    ((u128::from(bits) * count as u128) >> 64) as usize
}
