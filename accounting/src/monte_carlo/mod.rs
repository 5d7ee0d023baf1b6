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
mod budget;
mod calibrate;
mod centre;
mod estimate;
mod exp;
mod figures;
mod gradient;
mod gram;
mod lanes;
pub mod optimize;
mod pair;
mod remove;
mod scaled;
mod stream;
mod verdict;

pub use b_min_sep::{BMinSep, MAX_ROUNDS};
pub use balls_in_bins::BallsInBins;
pub use budget::{MAX_SAMPLES, MIN_SAMPLES, SampleBudget};
pub use estimate::Estimate;
pub use figures::{Delta, Epsilon};
pub use gram::{MAX_BATCHES, MAX_ROWS};
pub use pair::Pair;
pub use verdict::{Calibration, Verdict};
