//! Batches drawn at random under correlated noise, by Monte Carlo (papers/003): balls-in-bins for any C ≥ 0, b-min-sep
//! for banded C ≥ 0.
//!
//! Records draw their rounds independently of each other, so that a pair stands for one record: P is a mixture of
//! N(m_S, σ²I) over the sets S of rounds it may take, m_S = Σ_{t∈S} C[:, t], and Q = N(0, σ²I). It dominates where
//! C ≥ 0 (Lemma 3.2, whose proof asks of S only that it doesn't depend on the data). Neighbours differ by one record
//! zeroed out, so that a cap on batches needs no account of its own where what is cut doesn't depend on what the
//! records hold: a record that is cut contributes zero, which the pair covers.
//!
//! [`BallsInBins`] and [`BMinSep`] say how a pair's loss is drawn; what is asked of either is [`Pair`]'s.
//!
//! Figures are estimates with a standard error. What is *promised* is [`Pair::verify`]'s to say: it draws
//! samples that no search has seen and releases only where an upper confidence bound is at most δ.
//!
//! Numbers come from ChaCha streams by seed and block, bit for bit the same with any number of threads on one
//! processor; another instruction set may round the matrix product another way.

mod add;
mod b_min_sep;
mod balls_in_bins;
mod block;
mod calibrate;
mod estimate;
mod exp;
mod gradient;
mod gram;
mod lanes;
pub mod optimise;
mod pair;
mod remove;
mod scaled;
mod verdict;

use self::block::{Draw, Purpose};
use crate::error::{AccountingError, Result};
use crate::neighbouring::Direction;

pub use b_min_sep::{BMinSep, MAX_ROUNDS};
pub use balls_in_bins::BallsInBins;
pub use estimate::Estimate;
pub use gram::{MAX_BATCHES, MAX_ROWS};
pub use pair::Pair;
pub use verdict::{Calibrated, Verdict};

/// Most samples of one estimate.
pub const MAX_SAMPLES: u64 = 1 << 30;
/// Least samples of one estimate: variances of fewer say little.
pub const MIN_SAMPLES: u64 = 256;
/// Samples with which a search finds out where to look.
const SCOUTS: u64 = 1 << 14;

/// How many samples, in antithetic pairs (an odd number gets one more), and the seed of their streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// [`MIN_SAMPLES`] to [`MAX_SAMPLES`].
    pub samples: u64,
    /// Samples are a function of it. A seed that was tried until its verdict pleased makes that verdict worthless.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { samples: 1 << 20, seed: 0 }
    }
}

impl Sampling {
    fn draw(self, purpose: Purpose) -> Result<Draw> {
        if !(MIN_SAMPLES..=MAX_SAMPLES).contains(&self.samples) {
            let allowed = "256 to 1073741824";
            return Err(AccountingError::Invalid { what: "samples", value: self.samples as f64, allowed });
        }
        Ok(Draw { samples: self.samples.next_multiple_of(2), seed: self.seed, purpose })
    }
}

/// δ at one ε, in both orders.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delta {
    /// In the order [`Direction::Remove`].
    pub remove: Estimate,
    /// In the order [`Direction::Add`].
    pub add: Estimate,
}

impl Delta {
    fn of(&self, direction: Direction) -> Estimate {
        match direction {
            Direction::Remove => self.remove,
            Direction::Add => self.add,
        }
    }

    /// The larger one.
    #[must_use]
    pub fn worse(&self) -> Estimate {
        if self.add.delta > self.remove.delta { self.add } else { self.remove }
    }

    /// An upper bound of both that holds but with probability `failure`, where only one of them need be above it:
    /// see [`Verdict`].
    #[must_use]
    pub fn upper(&self, failure: f64) -> f64 {
        self.remove.upper(failure).max(self.add.upper(failure))
    }
}

/// ε at a δ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epsilon {
    /// In nats; an estimate, and no bound.
    pub epsilon: f64,
    /// δ at this ε, from samples that weren't used to find it.
    pub delta: Delta,
}
