//! Optimisers: find the parameters of a mechanism with the least loss for prefix sums.

mod band_inverse;
mod band_mf;
mod band_toeplitz;
mod blt;
mod lambda;
mod lbfgs;
mod series_gradient;

use std::ops::ControlFlow;

use crate::error::{Result, StrategyError, invalid};
use crate::mechanism::Strategy;
use crate::participation::{Participation, Sensitivity};
use crate::workload::Workload;

pub use crate::loss::Objective;
use lbfgs::Search;

/// Which mechanism to optimise, with the sizes that stay fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    Identity,
    Tree,
    Blt { buffers: usize },
    BandToeplitz { bands: usize },
    BandMf { bands: usize },
    BandSqrt { bands: usize },
    BandInverse { bands: usize },
    BandInverseSqrt { bands: usize },
    LambdaCgd,
    Dense,
}

impl Family {
    /// The mechanism's name, as configurations spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Tree => "tree",
            Self::Blt { .. } => "blt",
            Self::BandToeplitz { .. } => "band-toeplitz",
            Self::BandMf { .. } => "band-mf",
            Self::BandSqrt { .. } => "band-sqrt",
            Self::BandInverse { .. } => "band-inverse",
            Self::BandInverseSqrt { .. } => "band-inverse-sqrt",
            Self::LambdaCgd => "lambda-cgd",
            Self::Dense => "dense",
        }
    }
}

/// The setting a strategy is optimised for. Participations satisfy **j − i ≥ min_sep**.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Target {
    /// Rounds n of the run.
    pub iterations: u64,
    /// The participation rule of the sensitivity.
    pub participation: Participation,
    /// The loss to minimise.
    pub objective: Objective,
    /// What is released; prefix sums unless set.
    pub workload: Workload,
}

impl Target {
    /// A setting with prefix sums as the workload.
    #[must_use]
    pub fn new(iterations: u64, participation: Participation, objective: Objective) -> Self {
        Self { iterations, participation, objective, workload: Workload::Prefix }
    }

    /// The same setting with another workload.
    #[must_use]
    pub fn with_workload(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self
    }

    /// The objective's error of `strategy` on this workload, in units of σζ times those of its rows.
    ///
    /// # Errors
    /// As [`Strategy::errors_on`].
    pub fn error(&self, strategy: &Strategy) -> Result<f64> {
        let n = self.iterations;
        Ok(match &self.objective {
            Objective::Rms => strategy.errors_on(n, &self.workload)?.rms,
            Objective::Max => strategy.errors_on(n, &self.workload)?.max,
            Objective::Last => strategy.errors_on(n, &self.workload)?.last,
            weighted @ Objective::Weighted(_) => {
                weighted.error(&strategy.row_errors_squared(n, &self.workload)?)
            }
        })
    }

    /// The objective's loss: error × sens(C), not squared.
    ///
    /// # Errors
    /// As [`Strategy::errors_on`] and [`Strategy::sensitivity`].
    pub fn loss(&self, strategy: &Strategy) -> Result<f64> {
        Ok(self.error(strategy)? * strategy.sensitivity(self.iterations, self.participation)?.value)
    }

    /// Refuses what no strategy could be found for.
    fn check(&self) -> Result<()> {
        if self.iterations == 0 {
            return Err(invalid("iterations", 0, "1 or more"));
        }
        self.participation.check()?;
        self.objective.check(self.iterations)?;
        self.workload.check(self.iterations)
    }
}

/// One step of an optimisation, for the caller's eyes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps taken so far, over all starts.
    pub iteration: usize,
    /// The loss at this step (error × sensitivity, not squared).
    pub loss: f64,
    /// Norm of the gradient of ln(loss) in the optimiser's own parameters; NaN for one-dimensional searches.
    pub gradient_norm: f64,
}

/// Called once a step; `Break` ends the optimisation, and the best strategy so far is returned.
pub type ProgressFn<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// An optimised strategy with what it achieves in its setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimised {
    pub strategy: Strategy,
    /// Per unit clip norm.
    pub sensitivity: Sensitivity,
    /// In units of σζ.
    pub rms_error: f64,
    /// In units of σζ.
    pub max_error: f64,
    /// RmsError · sens(C).
    pub rms_loss: f64,
    /// MaxError · sens(C).
    pub max_loss: f64,
    /// The loss that was minimised: that of the target's objective.
    pub loss: f64,
    /// False when a search ran out of steps before it settled; the best point found is then returned.
    pub converged: bool,
    /// Optimiser steps taken.
    pub iterations: usize,
    /// True when the callback ended the optimisation early.
    pub stopped: bool,
}

impl Optimised {
    /// Evaluates a strategy in a setting.
    pub(crate) fn evaluate(
        strategy: Strategy,
        target: &Target,
        search: Search,
    ) -> Result<Self> {
        let n = target.iterations;
        let sensitivity = strategy.sensitivity(n, target.participation)?;
        let errors = strategy.errors_on(n, &target.workload)?;
        let error = target.error(&strategy)?;
        Ok(Self {
            strategy,
            sensitivity,
            rms_error: errors.rms,
            max_error: errors.max,
            rms_loss: errors.rms * sensitivity.value,
            max_loss: errors.max * sensitivity.value,
            loss: error * sensitivity.value,
            converged: search.converged && !search.stopped,
            iterations: search.steps,
            stopped: search.stopped,
        })
    }
}

/// Finds the parameters of `family` with the least loss in the setting `target`.
///
/// # Errors
/// [`StrategyError::NotOptimisable`] for families without parameters or settings not covered;
/// [`StrategyError::Invalid`] for unusable sizes.
pub fn optimize(family: Family, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimised> {
    target.check()?;
    match family {
        Family::Blt { buffers } => blt::optimise(buffers, target, progress),
        Family::BandToeplitz { bands } => band_toeplitz::optimise(bands, target, progress),
        Family::BandMf { bands } => band_mf::optimise(bands, target, progress),
        Family::BandInverse { bands } => band_inverse::optimise(bands, target, progress),
        Family::LambdaCgd => lambda::optimise(target, progress),
        Family::Dense => band_mf::optimise_dense(target, progress),
        Family::Identity | Family::Tree | Family::BandSqrt { .. } | Family::BandInverseSqrt { .. } => {
            let why = "it has no free parameters".into();
            Err(StrategyError::NotOptimisable { mechanism: family.name(), why })
        }
    }
}

/// 1/(1+e^{−x}).
fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The x with logistic(x) = part/(part + rest).
fn logit(part: f64, rest: f64) -> f64 {
    // Ratios of exactly 0 or 1 have no finite x; 1e±13 is as near as the search can use.
    (part / rest).clamp(1e-13, 1e13).ln()
}
