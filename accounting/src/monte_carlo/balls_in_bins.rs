//! Balls-in-bins batches (Choquette-Choo et al. 2024, arXiv:2410.06266, Lemma 3.2).
//!
//! Every record is put into one of b batches, uniformly and independently, and stays there in all E epochs: round be + i
//! takes batch i. The pair P = (1/b)Σ_i N(m_i, σ²I), Q = N(0, σ²I) with m_i = Σ_e C[:, be + i] dominates where
//! C ≥ 0, and their loss depends on an output x through the b products x·m_j alone. These products are
//! drawn directly, so a sample costs b² whatever n = bE is.

use ndarray::{Array2, ArrayView2};
use strategy::Strategy;

use super::block::Proposal;
use super::figures::Delta;
use super::pair::LossSampler;
use super::scaled::Scaled;
use super::stream::Draw;
use super::{estimate, gram};
use crate::error::{Result, not_negative, positive};
use crate::neighbouring::Direction;

/// A correlated-noise mechanism under balls-in-bins batches, for any σ.
///
/// ```
/// use accounting::monte_carlo::{BallsInBins, Pair, SampleBudget};
/// use strategy::Strategy;
///
/// # fn main() -> accounting::Result<()> {
/// // 4 epochs of 8 batches; each record is in one batch of every epoch.
/// let mechanism = BallsInBins::new(&Strategy::BandSqrt { bands: 4 }, 32, 8)?;
/// let budget = SampleBudget { samples: 1 << 12, seed: 1 };
/// let epsilon = mechanism.epsilon(2.0, 1e-3, budget)?.epsilon;
/// // Without amplification the batch of a record would be known.
/// assert!(epsilon < accounting::gaussian::epsilon(1e-3, mechanism.sensitivity() / 2.0)?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct BallsInBins {
    gram: Array2<f64>,
    factor: Array2<f64>,
}

impl BallsInBins {
    /// Builds the mechanism of a strategy over `n` rounds with `batches` = b batches per epoch.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless 1 ≤ b ≤ [`super::MAX_BATCHES`] divides n and no entry of C is
    /// negative; [`crate::AccountingError::Strategy`] for a strategy that can't be evaluated.
    pub fn new(strategy: &Strategy, n: u64, batches: u64) -> Result<Self> {
        Self::of_gram(gram::gram(strategy, n, batches)?)
    }

    pub(super) fn of_gram(gram: Array2<f64>) -> Result<Self> {
        let factor = gram::cholesky(&gram)?;
        Ok(Self { gram, factor })
    }

    /// Returns the Gram matrix `G[i,j] = m_i·m_j`, batches × batches.
    #[must_use]
    pub fn gram(&self) -> ArrayView2<'_, f64> {
        self.gram.view()
    }

    pub(super) fn scaled(&self, sigma: f64) -> Result<Scaled> {
        positive("noise multiplier", sigma)?;
        let most = self.longest() / sigma;
        positive("sensitivity / noise multiplier", most * most)?;
        Ok(Scaled::new(&self.gram, &self.factor, sigma))
    }

    /// Estimates δ at ε in one order.
    pub(super) fn delta_of(&self, order: Direction, sigma: f64, epsilon: f64, draw: Draw) -> Result<f64> {
        let scaled = self.scaled(sigma)?;
        let [found] = estimate::delta(&scaled, [&Proposal::new(&scaled, order, epsilon)], epsilon, draw);
        Ok(found.delta)
    }
}

impl LossSampler for BallsInBins {
    fn longest(&self) -> f64 {
        self.gram.diag().iter().copied().fold(0.0, f64::max).sqrt()
    }

    fn delta_with(&self, sigma: f64, epsilon: f64, draw: Draw) -> Result<Delta> {
        not_negative("epsilon", epsilon)?;
        let scaled = self.scaled(sigma)?;
        let [remove, add] = Direction::BOTH.map(|order| Proposal::new(&scaled, order, epsilon));
        let [remove, add] = estimate::delta(&scaled, [&remove, &add], epsilon, draw);
        Ok(Delta { remove, add })
    }

    fn losses(&self, sigma: f64, order: Direction, about: f64, draw: Draw) -> Result<Vec<(f64, f64)>> {
        let scaled = self.scaled(sigma)?;
        let proposal = Proposal::new(&scaled, order, about);
        Ok(estimate::losses(&scaled, &proposal, draw))
    }
}
