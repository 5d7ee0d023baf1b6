//! C made for balls-in-bins batches: the least σ(C)·error(C) at an (ε, δ) (papers/003 §4.2).
//!
//! ln σ is a function of G alone, and H = ∂ ln σ/∂G comes from samples by implicit differentiation
//! (∂σ = −∂δ/(∂δ/∂σ)). σ is homogeneous, of degree ½ in G, so √(2ΣH∘G) has σ's value and slope at C up to a factor:
//! it stands for the sensitivity ([`surrogate`]) in a search without samples, whose end is the next C. Where samples find that it
//! went too far, it is held back and tried again. What takes one set of samples here is a whole search, where gradient
//! descent takes a step; without amplification ΣH∘G is the sensitivity itself and the first search the last.

mod quadratic;
mod surrogate;

use std::ops::ControlFlow;

use ndarray::Array2;
use strategy::Strategy;
use strategy::optimize::{Descent, Target, descend};

use self::surrogate::Surrogate;
use super::balls_in_bins::BallsInBins;
use super::budget::{PILOT_SAMPLES, SampleBudget};
use super::calibrate::search;
use super::gradient::noise_by_gram;
use super::pair::{LossSampler, Pair};
use super::stream::{Draw, Purpose};
use super::verdict::Calibration;
use crate::error::{AccountingError, Result};
use crate::neighbouring::Direction;

/// Most batches per epoch of an optimisation: each stretch of samples has a b×b sum of its own.
pub const MAX_OPTIMIZED_BATCHES: u64 = 1024;
/// Steps of one search without samples.
const SEARCH_STEPS: usize = 60;
/// Gain of ln(loss) below which a search has settled.
const TOLERANCE: f64 = 2e-4;
/// Damping of searches at first: ratios of coefficients that came to zero or one would stay there. What each search
/// that went too far multiplies it by, and what ends it.
const MIN_DAMPING: f64 = 3e-4;
const DAMPING_FACTOR: f64 = 10.0;
const MAX_DAMPING: f64 = 2.0;

/// What C is made for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Batches per epoch.
    pub batches: u64,
    pub epsilon: f64,
    pub delta: f64,
}

/// How much to spend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Samples of every σ and slope within the search.
    pub samples: u64,
    /// Searches from fresh samples, each from where the last ended.
    pub restarts: u64,
    /// Most searches without samples in each.
    pub searches: usize,
    /// For the noise multipliers of start and end.
    pub sampling: SampleBudget,
}

impl Default for Effort {
    fn default() -> Self {
        Self { samples: 1 << 17, restarts: 2, searches: 30, sampling: SampleBudget::default() }
    }
}

/// One search done, for the caller's eyes; `Break` ends the optimisation with the best so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    pub search: usize,
    /// σ·error as few samples have it.
    pub loss: f64,
}

/// A strategy with its noise.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibratedStrategy {
    pub strategy: Strategy,
    /// By an upper bound of δ, verified.
    pub calibrated: Calibration,
    /// σ as the mean of the samples has it.
    pub estimate: f64,
    /// Of the objective, in units of σζ.
    pub error: f64,
}

impl CalibratedStrategy {
    /// σ·error, in units of ζ.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.calibrated.noise_multiplier * self.error
    }

    /// The same by the estimate.
    #[must_use]
    pub fn estimated_loss(&self) -> f64 {
        self.estimate * self.error
    }
}

/// What came of an optimisation.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimization {
    pub start: CalibratedStrategy,
    /// Where the search ended.
    pub end: CalibratedStrategy,
    /// Searches without samples that were tried.
    pub searches: usize,
    pub converged: bool,
    pub stopped: bool,
}

impl Optimization {
    /// The one of less verified loss. That may be the start although the end's estimate is less: where amplification is
    /// strong an upper bound of δ comes near to the estimate only with many samples.
    #[must_use]
    pub fn best(&self) -> &CalibratedStrategy {
        if self.end.loss() < self.start.loss() { &self.end } else { &self.start }
    }
}

/// A C with what samples say of it.
struct Point {
    strategy: Strategy,
    mechanism: BallsInBins,
    sigma: f64,
    ln_loss: f64,
}

/// Searches from `start`, as [`descend`] takes it, for the least σ·error of `target`'s objective.
///
/// # Errors
/// As [`BallsInBins::new`], [`BallsInBins::calibrate`] and [`descend`]; [`AccountingError::Invalid`] for more than
/// [`MAX_OPTIMIZED_BATCHES`].
pub fn optimize_balls_in_bins(
    start: &Strategy,
    target: &Target,
    goal: Goal,
    effort: Effort,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Optimization> {
    if goal.batches > MAX_OPTIMIZED_BATCHES {
        let what = "batches per epoch";
        let allowed = "1 to 1024 to optimize for";
        return Err(AccountingError::Invalid { what, value: goal.batches as f64, allowed });
    }
    // Refuses what can't be searched from before any sample is drawn.
    descend(start, target, Descent { steps: 0, damping: 0.0 }, &mut |_, _| 0.0)?;
    let mut search = Search { target, goal, effort, progress, searches: 0, stopped: false };
    let mut at = start.clone();
    let mut converged = false;
    for restart in 0..effort.restarts.max(1) {
        (at, converged) = search.run(&at, restart)?;
        if search.stopped {
            break;
        }
    }
    let start = search.calibrated(start)?;
    let end = search.calibrated(&at)?;
    Ok(Optimization { start, end, searches: search.searches, converged, stopped: search.stopped })
}

impl BallsInBins {
    /// The estimate of σ, looked for near a σ, and its slope ∂ ln σ/∂G, batches × batches: all that a step of
    /// gradient descent asks of samples.
    ///
    /// # Errors
    /// As [`Pair::noise_multiplier`].
    pub fn noise_and_slope(
        &self,
        near: f64,
        epsilon: f64,
        delta: f64,
        sampling: SampleBudget,
    ) -> Result<(f64, Array2<f64>)> {
        let draw = sampling.draw(Purpose::Search)?;
        // Where both orders are so near that few samples mistake one for the other, so are their σ.
        let few = Draw { samples: draw.samples.min(PILOT_SAMPLES), ..draw };
        let found = self.delta_with(near, epsilon, few)?;
        let worse = if found.add.delta > found.remove.delta { Direction::Add } else { Direction::Remove };
        let sigma = search(self.longest(), (epsilon, delta), draw, Some(near), |sigma, draw| {
            self.delta_of(worse, sigma, epsilon, draw)
        })?;
        Ok((sigma, noise_by_gram(&self.scaled(sigma)?, worse, epsilon, draw).h))
    }
}

struct Search<'a> {
    target: &'a Target,
    goal: Goal,
    effort: Effort,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    searches: usize,
    stopped: bool,
}

impl Search<'_> {
    /// Where searches on one set of samples end, and whether they settled.
    fn run(&mut self, start: &Strategy, restart: u64) -> Result<(Strategy, bool)> {
        let seed = self.effort.sampling.seed.wrapping_add(restart + 1);
        let draw = SampleBudget { samples: self.effort.samples, seed }.draw(Purpose::Search)?;
        let mut at = self.point(start.clone(), None, draw)?;
        let mut surrogate = self.surrogate(&at, draw)?;
        let mut damping = MIN_DAMPING;
        for _ in 0..self.effort.searches {
            self.searches += 1;
            let next = self.next(&at, &mut surrogate, damping, draw);
            let gain = next.as_ref().map_or(f64::NEG_INFINITY, |next| at.ln_loss - next.ln_loss);
            if let (Ok(next), true) = (next, gain > 0.0) {
                at = next;
                if gain < TOLERANCE {
                    return Ok((at.strategy, true));
                }
                surrogate = self.surrogate(&at, draw)?;
                damping = (damping / DAMPING_FACTOR).max(MIN_DAMPING);
            } else {
                damping *= DAMPING_FACTOR;
                if damping > MAX_DAMPING {
                    return Ok((at.strategy, true));
                }
            }
            let seen = Progress { search: self.searches, loss: at.ln_loss.exp() };
            self.stopped |= (self.progress)(seen).is_break();
            if self.stopped {
                break;
            }
        }
        Ok((at.strategy, false))
    }

    fn next(&self, at: &Point, surrogate: &mut Surrogate, damping: f64, draw: Draw) -> Result<Point> {
        let cost = &mut |c: &[f64], by: &mut [f64]| surrogate.ln(c, by);
        let strategy = descend(&at.strategy, self.target, Descent { steps: SEARCH_STEPS, damping }, cost)?;
        self.point(strategy, Some(at.sigma), draw)
    }

    fn point(&self, strategy: Strategy, near: Option<f64>, draw: Draw) -> Result<Point> {
        let Goal { batches, epsilon, delta } = self.goal;
        let mechanism = BallsInBins::new(&strategy, self.target.iterations, batches)?;
        let sigma = search(mechanism.longest(), (epsilon, delta), draw, near, |sigma, draw| {
            Ok(mechanism.delta_with(sigma, epsilon, draw)?.worse().delta)
        })?;
        let ln_loss = (sigma * self.target.error(&strategy)?).ln();
        Ok(Point { strategy, mechanism, sigma, ln_loss })
    }

    fn surrogate(&self, at: &Point, draw: Draw) -> Result<Surrogate> {
        Surrogate::new(&at.mechanism, at.sigma, self.goal.epsilon, self.target.iterations, draw)
    }

    fn calibrated(&self, strategy: &Strategy) -> Result<CalibratedStrategy> {
        let Goal { batches, epsilon, delta } = self.goal;
        let mechanism = BallsInBins::new(strategy, self.target.iterations, batches)?;
        let calibrated = mechanism.calibrate(epsilon, delta, self.effort.sampling)?;
        let estimate = mechanism.noise_multiplier(epsilon, delta, self.effort.sampling)?;
        let error = self.target.error(strategy)?;
        Ok(CalibratedStrategy { strategy: strategy.clone(), calibrated, estimate, error })
    }
}
