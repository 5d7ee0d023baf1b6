//! The account of every pair, however its loss is drawn: δ, ε, σ, and the verdict on what may be promised.

use super::budget::{PILOT_SAMPLES, SampleBudget};
use super::estimate::Estimate;
use super::figures::{Delta, Epsilon};
use super::stream::{Draw, Purpose};
use super::verdict::{Calibration, Verdict};
use super::{calibrate, estimate};
use crate::error::{Result, positive, probability};
use crate::gaussian;
use crate::neighbouring::Direction;

/// Most samples that a search for ε keeps in memory, 16 MiB of losses and weights.
const MAX_SEARCH_SAMPLES: u64 = 1 << 20;
/// Standard errors by which a search stays below δ, so that fresh samples fail to verify it about once in a thousand
/// times. The factor √2 is there because both means stray.
const MARGIN: f64 = 3.0 * std::f64::consts::SQRT_2;

/// A sampler of the privacy loss of a pair.
pub trait LossSampler: Sync {
    /// Returns the largest |m_S|.
    fn longest(&self) -> f64;

    /// Estimates δ at ε in both orders.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless σ > 0 and ε ≥ 0.
    fn delta_with(&self, sigma: f64, epsilon: f64, draw: Draw) -> Result<Delta>;

    /// Returns losses above zero with their weights, from a proposal made for losses about an ε.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless σ > 0.
    fn losses(&self, sigma: f64, order: Direction, about: f64, draw: Draw) -> Result<Vec<(f64, f64)>>;
}

/// A dominating pair at any noise multiplier σ, per unit clip norm.
pub trait Pair: LossSampler {
    /// Returns the sensitivity without amplification: that of a record whose rounds are known.
    #[must_use]
    fn sensitivity(&self) -> f64 {
        self.longest()
    }

    /// Estimates δ at ε for noise multiplier σ, in both orders.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless σ > 0, ε ≥ 0 and samples lie in
    /// [`super::MIN_SAMPLES`]…[`super::MAX_SAMPLES`].
    fn delta(&self, sigma: f64, epsilon: f64, budget: SampleBudget) -> Result<Delta> {
        self.delta_with(sigma, epsilon, budget.draw(Purpose::Verify)?)
    }

    /// Estimates ε at δ for noise multiplier σ: the larger of both orders, found on at most 2²⁰ samples. The estimate of
    /// δ at that ε comes from other samples.
    ///
    /// # Errors
    /// Those of [`Self::delta`], and [`crate::AccountingError::Invalid`] unless 0 < δ < 1.
    fn epsilon(&self, sigma: f64, delta: f64, budget: SampleBudget) -> Result<Epsilon> {
        probability("delta", delta)?;
        positive("noise multiplier", sigma)?;
        let draw = budget.draw(Purpose::Search)?;
        // Known rounds are worse than unknown ones: the hockey stick is convex in the pair.
        let most = gaussian::epsilon(delta, self.longest() / sigma)?;
        let mut epsilon = 0.0_f64;
        for order in Direction::BOTH {
            let losses = |about: f64, draw: Draw| self.losses(sigma, order, about, draw);
            epsilon = epsilon.max(search(losses, delta, most, draw)?);
        }
        Ok(Epsilon { epsilon, delta: self.delta(sigma, epsilon, budget)? })
    }

    /// Verifies (ε, δ) at σ. Call it once for each run, with a seed chosen beforehand. (σ, ε, δ) may come from any search,
    /// even one with this seed: searches use other samples.
    ///
    /// # Errors
    /// Those of [`Self::delta`], and [`crate::AccountingError::Invalid`] unless 0 < δ < 1.
    fn verify(&self, sigma: f64, epsilon: f64, delta: f64, budget: SampleBudget) -> Result<Verdict> {
        probability("delta", delta)?;
        let found = self.delta(sigma, epsilon, budget)?;
        let upper = found.upper(delta);
        Ok(if upper <= delta {
            Verdict::Release { upper, delta: found }
        } else {
            Verdict::Refuse { upper, delta: found }
        })
    }

    /// Returns the σ at which the mean of fixed samples is δ in the worse order: an estimate that no promise may rest on.
    ///
    /// # Errors
    /// Those of [`Self::calibrate`].
    fn noise_multiplier(&self, epsilon: f64, delta: f64, budget: SampleBudget) -> Result<f64> {
        let draw = budget.draw(Purpose::Search)?;
        calibrate::search(self.longest(), (epsilon, delta), draw, None, |sigma, draw| {
            Ok(self.delta_with(sigma, epsilon, draw)?.worse().delta)
        })
    }

    /// Returns the smallest σ whose upper bound of δ is expected to be at most δ on fresh samples, with their verdict.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless ε > 0, 0 < δ < 1 and samples are within their range;
    /// [`crate::AccountingError::OutOfReach`] where so few samples can't bound any such δ.
    fn calibrate(&self, epsilon: f64, delta: f64, budget: SampleBudget) -> Result<Calibration> {
        let bound = |sigma: f64, draw: Draw| {
            let of = |e: Estimate| e.upper(delta) + MARGIN * e.standard_error;
            let found = self.delta_with(sigma, epsilon, draw)?;
            Ok(of(found.remove).max(of(found.add)))
        };
        let draw = budget.draw(Purpose::Search)?;
        let noise_multiplier = calibrate::search(self.longest(), (epsilon, delta), draw, None, bound)?;
        let verdict = self.verify(noise_multiplier, epsilon, delta, budget)?;
        Ok(Calibration { noise_multiplier, verdict })
    }
}

impl<T: LossSampler> Pair for T {}

/// Searches ε at δ in one order. A proposal is made for one ε; a pilot run of few samples finds which.
fn search(
    losses: impl Fn(f64, Draw) -> Result<Vec<(f64, f64)>>,
    delta: f64,
    most: f64,
    draw: Draw,
) -> Result<f64> {
    let pilot = Draw { samples: draw.samples.min(PILOT_SAMPLES), ..draw };
    let mut about = most;
    for _ in 0..8 {
        let found = estimate::epsilon(losses(about, pilot)?, pilot, delta, most);
        let settled = (found - about).abs() <= 0.02 * about;
        about = found;
        if settled {
            break;
        }
    }
    let draw = Draw { samples: draw.samples.min(MAX_SEARCH_SAMPLES), ..draw };
    Ok(estimate::epsilon(losses(about, draw)?, draw, delta, most))
}
