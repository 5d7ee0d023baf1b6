//! Strategies optimized for balls-in-bins batches: the least σ(C)·error(C) at an (ε, δ) (Choquette-Choo et al. 2024,
//! §4.2).
//!
//! ln σ is a function of G alone, and H = ∂ ln σ/∂G comes from samples by implicit differentiation
//! (∂σ = −∂δ/(∂δ/∂σ)). σ is homogeneous, of degree ½ in G, so √(2ΣH∘G) has σ's value and slope at C up to a factor:
//! it replaces the sensitivity (`surrogate`) in a search without samples, whose end is the next C. Where samples show that
//! the search went too far, it is damped and repeated. So one set of samples serves a whole search, where gradient descent
//! would take one step. Without amplification ΣH∘G is the sensitivity itself, and the first search is the last:
//!
//! ```text
//! at = start
//! repeat:
//!   surrogate = √(2ΣH∘G) with H = ∂ ln σ/∂G at `at`, from samples
//!   next = argmin surrogate(C)·error(C), damped around `at`           L-BFGS, no samples
//!   σ(next) from samples
//!   if σ·error fell:  at = next, less damping;  stop where it fell by less than TOLERANCE
//!   else:             more damping;             stop where it is above MAX_DAMPING
//! ```

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
/// Steps of one search without samples: more of them leave the range in which the surrogate is right.
const SEARCH_STEPS: usize = 60;
/// Gain of ln(loss) below which a search has settled.
const TOLERANCE: f64 = 2e-4;
/// Damping of the first search: without any, ratios of coefficients that came to zero or one would stay there.
const MIN_DAMPING: f64 = 3e-4;
/// Factor by which damping grows after a search that went too far, and falls after one that gained.
const DAMPING_FACTOR: f64 = 10.0;
/// Damping beyond which no search gains any more.
const MAX_DAMPING: f64 = 2.0;

/// The batches and the guarantee that a strategy is optimized for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Batches per epoch.
    pub batches: u64,
    /// ε to meet, in nats.
    pub epsilon: f64,
    /// δ at which ε is met.
    pub delta: f64,
}

/// The effort of an optimization.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Samples of every σ and slope within a search.
    pub samples: u64,
    /// Runs on fresh samples, each from where the one before ended.
    pub restarts: u64,
    /// Most searches without samples in each run.
    pub searches: usize,
    /// Samples for the noise multipliers of start and end.
    pub budget: SampleBudget,
}

impl Default for Effort {
    fn default() -> Self {
        Self { samples: 1 << 17, restarts: 2, searches: 30, budget: SampleBudget::default() }
    }
}

/// The progress of an optimization after each search. A callback that returns `Break` ends it with the best so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The number of searches so far.
    pub search: usize,
    /// σ·error, estimated on few samples.
    pub loss: f64,
}

/// A strategy with the noise multiplier that meets the goal.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibratedStrategy {
    /// The strategy C.
    pub strategy: Strategy,
    /// σ by an upper bound of δ, and its verdict.
    pub calibrated: Calibration,
    /// σ by the mean of the samples, an estimate.
    pub estimate: f64,
    /// The error of the objective, in units of σζ.
    pub error: f64,
}

impl CalibratedStrategy {
    /// Returns σ·error by the verified σ, in units of ζ.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.calibrated.noise_multiplier * self.error
    }

    /// Returns σ·error by the estimated σ, in units of ζ.
    #[must_use]
    pub fn estimated_loss(&self) -> f64 {
        self.estimate * self.error
    }
}

/// The result of an optimization.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimization {
    /// The strategy that the optimization started from.
    pub start: CalibratedStrategy,
    /// The strategy that it ended at.
    pub end: CalibratedStrategy,
    /// The number of searches without samples.
    pub searches: usize,
    /// True where the last run settled.
    pub converged: bool,
    /// True where the callback stopped the optimization.
    pub stopped: bool,
}

impl Optimization {
    /// Returns the strategy of smaller verified loss. That may be the start although the estimate of the end is smaller:
    /// where amplification is strong, an upper bound of δ comes near to the estimate only with many samples.
    #[must_use]
    pub fn best(&self) -> &CalibratedStrategy {
        if self.end.loss() < self.start.loss() { &self.end } else { &self.start }
    }
}

/// A strategy with its σ and loss on the samples of one run.
struct Point {
    strategy: Strategy,
    mechanism: BallsInBins,
    sigma: f64,
    ln_loss: f64,
}

/// Searches from `start`, a strategy that [`descend`] accepts, for the least σ·error of the objective of `target`.
///
/// # Errors
/// Those of [`BallsInBins::new`], [`Pair::calibrate`] and [`descend`]; [`AccountingError::Invalid`] for more than
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
    // Refuses a strategy that can't be searched from before any sample is drawn.
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
    /// Estimates σ, searched near a given σ, and its slope ∂ ln σ/∂G, batches × batches: all that a step of gradient
    /// descent needs from samples.
    ///
    /// # Errors
    /// Those of [`Pair::noise_multiplier`].
    pub fn noise_and_slope(
        &self,
        near: f64,
        epsilon: f64,
        delta: f64,
        budget: SampleBudget,
    ) -> Result<(f64, Array2<f64>)> {
        let draw = budget.draw(Purpose::Search)?;
        // If both orders are so near that the pilot mistakes one for the other, their σ are near too.
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
    /// Runs searches on one set of samples; returns the strategy that they end at, and whether they settled.
    fn run(&mut self, start: &Strategy, restart: u64) -> Result<(Strategy, bool)> {
        let seed = self.effort.budget.seed.wrapping_add(restart + 1);
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
        let calibrated = mechanism.calibrate(epsilon, delta, self.effort.budget)?;
        let estimate = mechanism.noise_multiplier(epsilon, delta, self.effort.budget)?;
        let error = self.target.error(strategy)?;
        Ok(CalibratedStrategy { strategy: strategy.clone(), calibrated, estimate, error })
    }
}
