//! What is asked of every pair, however its loss is drawn: δ, ε, σ, and what may be promised.

use super::budget::{PILOT_SAMPLES, SampleBudget};
use super::estimate::Estimate;
use super::figures::{Delta, Epsilon};
use super::stream::{Draw, Purpose};
use super::verdict::{Calibration, Verdict};
use super::{calibrate, estimate};
use crate::error::{Result, positive, probability};
use crate::gaussian;
use crate::neighbouring::Direction;

/// Most samples that a search for ε keeps in memory.
const MAX_SEARCH_SAMPLES: u64 = 1 << 20;
/// Standard errors by which a search stays below δ, so that other samples verify it but once in a thousand times:
/// both means stray.
const MARGIN: f64 = 3.0 * std::f64::consts::SQRT_2;

/// How samples of a pair are drawn.
pub trait LossSampler: Sync {
    /// The largest |m_S|.
    fn longest(&self) -> f64;

    /// δ at ε in both orders. Errors unless σ > 0 and ε ≥ 0.
    fn delta_with(&self, sigma: f64, epsilon: f64, draw: Draw) -> Result<Delta>;

    /// Losses above zero and their weights, from a proposal made for losses about an ε.
    fn losses(&self, sigma: f64, order: Direction, about: f64, draw: Draw) -> Result<Vec<(f64, f64)>>;
}

/// A dominating pair at any σ. `sigma` is the noise multiplier, per unit clip norm.
pub trait Pair: LossSampler {
    /// Without amplification, of a record whose rounds are known.
    #[must_use]
    fn sensitivity(&self) -> f64 {
        self.longest()
    }

    /// δ at ε for noise multiplier σ, in both orders.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless σ > 0, ε ≥ 0 and samples lie in
    /// [`super::MIN_SAMPLES`]…[`super::MAX_SAMPLES`].
    fn delta(&self, sigma: f64, epsilon: f64, sampling: SampleBudget) -> Result<Delta> {
        self.delta_with(sigma, epsilon, sampling.draw(Purpose::Verify)?)
    }

    /// ε at δ for noise multiplier σ: the larger of both orders, found on at most 2²⁰ samples; what is said of δ
    /// comes from others.
    ///
    /// # Errors
    /// As [`Self::delta`], and [`crate::AccountingError::Invalid`] unless 0 < δ < 1.
    fn epsilon(&self, sigma: f64, delta: f64, sampling: SampleBudget) -> Result<Epsilon> {
        probability("delta", delta)?;
        positive("noise multiplier", sigma)?;
        let draw = sampling.draw(Purpose::Search)?;
        // Known rounds are worse than unknown ones: the hockey stick is convex in the pair.
        let most = gaussian::epsilon(delta, self.longest() / sigma)?;
        let mut epsilon = 0.0_f64;
        for order in Direction::BOTH {
            let losses = |about: f64, draw: Draw| self.losses(sigma, order, about, draw);
            epsilon = epsilon.max(search(losses, delta, most, draw)?);
        }
        Ok(Epsilon { epsilon, delta: self.delta(sigma, epsilon, sampling)? })
    }

    /// Verifies (ε, δ) at σ. To be asked once for each run, with a seed chosen before; (σ, ε, δ) may come from any
    /// search, also with this seed, whose samples are others.
    ///
    /// # Errors
    /// As [`Self::delta`], and [`crate::AccountingError::Invalid`] unless 0 < δ < 1.
    fn verify(&self, sigma: f64, epsilon: f64, delta: f64, sampling: SampleBudget) -> Result<Verdict> {
        probability("delta", delta)?;
        let found = self.delta(sigma, epsilon, sampling)?;
        let upper = found.upper(delta);
        Ok(if upper <= delta {
            Verdict::Release { upper, delta: found }
        } else {
            Verdict::Refuse { upper, delta: found }
        })
    }

    /// The σ at which the mean of fixed samples is δ in the worse order: an estimate, that no promise may rest on.
    ///
    /// # Errors
    /// As [`Self::calibrate`].
    fn noise_multiplier(&self, epsilon: f64, delta: f64, sampling: SampleBudget) -> Result<f64> {
        let draw = sampling.draw(Purpose::Search)?;
        calibrate::search(self.longest(), (epsilon, delta), draw, None, |sigma, draw| {
            Ok(self.delta_with(sigma, epsilon, draw)?.worse().delta)
        })
    }

    /// The least σ whose upper bound of δ is expected to be at most δ on fresh samples, with their verdict.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless ε > 0, 0 < δ < 1 and samples are within their range;
    /// [`crate::AccountingError::OutOfReach`] where so few samples can't bound any such δ.
    fn calibrate(&self, epsilon: f64, delta: f64, sampling: SampleBudget) -> Result<Calibration> {
        let bound = |sigma: f64, draw: Draw| {
            let of = |e: Estimate| e.upper(delta) + MARGIN * e.standard_error;
            let found = self.delta_with(sigma, epsilon, draw)?;
            Ok(of(found.remove).max(of(found.add)))
        };
        let draw = sampling.draw(Purpose::Search)?;
        let noise_multiplier = calibrate::search(self.longest(), (epsilon, delta), draw, None, bound)?;
        let verdict = self.verify(noise_multiplier, epsilon, delta, sampling)?;
        Ok(Calibration { noise_multiplier, verdict })
    }
}

impl<T: LossSampler> Pair for T {}

/// ε at δ in one order. A proposal is made for an ε; few samples tell which.
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
