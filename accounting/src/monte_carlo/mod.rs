//! Balls-in-bins batches with correlated noise, by Monte Carlo (papers/003).
//!
//! Every record is put into one of b batches, uniformly and independently, and stays there in all E epochs: round
//! be + i takes batch i. The pair P = (1/b)Σ_i N(m_i, σ²I), Q = N(0, σ²I) with m_i = Σ_e C[:, be + i] dominates where
//! C ≥ 0 (Lemma 3.2), and their loss depends on an output x through the b products x·m_j alone. These are drawn
//! directly, so that a sample costs b² whatever n = bE is. Neighbours differ by one record zeroed out, so that a cap
//! on batches needs no account of its own where what is cut doesn't depend on what the records hold: a record that
//! is cut contributes zero, which the pair covers.
//!
//! b-min-sep batches are not accounted for. Records draw their rounds independently there too, so that a mixture over
//! all sets of rounds b apart would take P's place by the same argument; but there are exponentially many of them, and
//! papers/003 has neither that pair nor proposals for it. For p ≤ b bands the likelihood ratio is a recursion over the
//! rounds, O(np) a sample; drawn plainly it needs some 100/δ samples, and how to draw them where the loss is near ε is
//! not known. The bound without sampling, min-sep b, holds.
//!
//! Figures are estimates with a standard error. What is *promised* is [`BallsInBins::verify`]'s to say: it draws
//! samples that no search has seen and releases only where an upper confidence bound is at most δ.
//!
//! Numbers come from ChaCha streams by seed and block, bit for bit the same with any number of threads on one
//! processor; another instruction set may round the matrix product another way.

mod add;
mod block;
mod calibrate;
mod estimate;
mod exp;
mod gradient;
mod gram;
mod lanes;
pub mod optimise;
mod remove;
mod scaled;
mod verdict;

use ndarray::{Array2, ArrayView2};
use strategy::Strategy;

use self::block::{Draw, Proposal, Purpose};
use self::scaled::Scaled;
use crate::error::{AccountingError, Result, not_negative, positive, probability};
use crate::gaussian;
use crate::neighbouring::Direction;

pub use estimate::Estimate;
pub use gram::{MAX_BATCHES, MAX_ROWS};
pub use verdict::{Calibrated, Verdict};

/// Most samples of one estimate.
pub const MAX_SAMPLES: u64 = 1 << 30;
/// Least samples of one estimate: variances of fewer say little.
pub const MIN_SAMPLES: u64 = 256;
/// Most samples that a search for ε keeps in memory.
const KEPT: u64 = 1 << 20;
/// Samples with which a search finds out where to look.
const SCOUTS: u64 = 1 << 14;

/// How many samples, in antithetic pairs (an odd number gets one more), and the seed of their streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
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
    pub remove: Estimate,
    pub add: Estimate,
}

impl Delta {
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
    pub epsilon: f64,
    /// δ at this ε, from samples that weren't used to find it.
    pub delta: Delta,
}

/// One mechanism under balls-in-bins batches, for any σ.
#[derive(Debug, Clone)]
pub struct BallsInBins {
    gram: Array2<f64>,
    factor: Array2<f64>,
}

impl BallsInBins {
    /// A strategy over `n` rounds with `batches` = b batches per epoch.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless 1 ≤ b ≤ [`MAX_BATCHES`] divides n and no entry of C is negative;
    /// [`AccountingError::Strategy`] for a strategy that can't be evaluated.
    pub fn new(strategy: &Strategy, n: u64, batches: u64) -> Result<Self> {
        Self::of_gram(gram::gram(strategy, n, batches)?)
    }

    fn of_gram(gram: Array2<f64>) -> Result<Self> {
        let factor = gram::cholesky(&gram)?;
        Ok(Self { gram, factor })
    }

    /// G[i,j] = m_i·m_j, batches × batches.
    #[must_use]
    pub fn gram(&self) -> ArrayView2<'_, f64> {
        self.gram.view()
    }

    /// The largest |m_i|: the sensitivity without amplification, of a record whose batch is known.
    #[must_use]
    pub fn longest(&self) -> f64 {
        self.gram.diag().iter().copied().fold(0.0, f64::max).sqrt()
    }

    fn scaled(&self, sigma: f64) -> Result<Scaled> {
        positive("noise multiplier", sigma)?;
        let most = self.longest() / sigma;
        positive("sensitivity / noise multiplier", most * most)?;
        Ok(Scaled::new(&self.gram, &self.factor, sigma))
    }

    /// δ at ε for noise multiplier σ, in both orders.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless σ > 0, ε ≥ 0 and samples lie in [`MIN_SAMPLES`]…[`MAX_SAMPLES`].
    pub fn delta(&self, sigma: f64, epsilon: f64, sampling: Sampling) -> Result<Delta> {
        self.delta_with(sigma, epsilon, sampling.draw(Purpose::Verify)?)
    }

    fn delta_with(&self, sigma: f64, epsilon: f64, draw: Draw) -> Result<Delta> {
        not_negative("epsilon", epsilon)?;
        let scaled = self.scaled(sigma)?;
        let [remove, add] = Direction::BOTH.map(|order| Proposal::new(&scaled, order, epsilon));
        let [remove, add] = estimate::delta(&scaled, [&remove, &add], epsilon, draw);
        Ok(Delta { remove, add })
    }

    /// ε at δ for noise multiplier σ: the larger of both orders, found on at most 2²⁰ samples; what is said of δ
    /// comes from others.
    ///
    /// # Errors
    /// As [`Self::delta`], and [`AccountingError::Invalid`] unless 0 < δ < 1.
    pub fn epsilon(&self, sigma: f64, delta: f64, sampling: Sampling) -> Result<Epsilon> {
        probability("delta", delta)?;
        let draw = sampling.draw(Purpose::Search)?;
        let scaled = self.scaled(sigma)?;
        // A known batch is worse than an unknown one: the hockey stick is convex in the pair.
        let most = gaussian::epsilon(delta, scaled.most().sqrt())?;
        let of = |direction| search(&scaled, direction, delta, most, draw);
        let epsilon = of(Direction::Remove).max(of(Direction::Add));
        Ok(Epsilon { epsilon, delta: self.delta(sigma, epsilon, sampling)? })
    }
}

/// ε at δ in one order. A proposal is made for an ε; few samples tell which.
fn search(scaled: &Scaled, direction: Direction, delta: f64, most: f64, draw: Draw) -> f64 {
    let scouts = Draw { samples: draw.samples.min(SCOUTS), ..draw };
    let mut about = most;
    for _ in 0..8 {
        let proposal = Proposal::new(scaled, direction, about);
        let found = estimate::epsilon(scaled, &proposal, delta, most, scouts);
        let settled = (found - about).abs() <= 0.02 * about;
        about = found;
        if settled {
            break;
        }
    }
    let proposal = Proposal::new(scaled, direction, about);
    estimate::epsilon(scaled, &proposal, delta, most, Draw { samples: draw.samples.min(KEPT), ..draw })
}
