//! Optimisers: find the parameters of a mechanism with the least loss.

mod band_inverse;
mod band_mf;
mod band_mf_error;
mod band_mf_knots;
mod band_toeplitz;
mod blt;
mod dense;
mod descend;
mod lambda;
mod lbfgs;
mod monotone;
mod normalised;
mod power;
mod robust;
mod row_loss;
#[cfg(test)]
mod series_tests;

use std::ops::ControlFlow;

use crate::error::{Result, invalid};
use crate::mechanism::Strategy;
use crate::participation::{Participation, Sensitivity};
use crate::tree::Tree;
use crate::workload::Workload;

pub use crate::loss::Objective;
pub use blt::MAX_OPTIMISED_BUFFERS;
pub use descend::{ColumnCost, Descent, descend};
use lbfgs::Search;
pub use robust::flattened;

/// Which mechanism to optimise, with the sizes that stay fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    Identity,
    Tree,
    Blt {
        buffers: usize,
    },
    /// A BLT with as many buffers as pay: one more would gain less than 0.01 %.
    BltAuto {
        max_buffers: usize,
    },
    BandToeplitz {
        bands: usize,
    },
    /// Band-Toeplitz with every column of C scaled to norm one, for no more bands than min_sep.
    BandToeplitzNormalised {
        bands: usize,
    },
    /// The band-Toeplitz strategies (1−x)^{−α}: nothing but α is searched for.
    BandPower {
        bands: usize,
    },
    BandMf {
        bands: usize,
    },
    BandSqrt {
        bands: usize,
    },
    BandInverse {
        bands: usize,
    },
    BandInverseSqrt {
        bands: usize,
    },
    LambdaCgd,
    /// For rounds of one user at least min_sep apart.
    Dense,
    /// For rounds of one user a multiple of min_sep apart, as with a fixed order of the data in every epoch.
    DenseFixedEpoch,
}

impl Family {
    /// The mechanism's name, as configurations spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Tree => "tree",
            Self::Blt { .. } | Self::BltAuto { .. } => "blt",
            Self::BandToeplitz { .. } | Self::BandToeplitzNormalised { .. } | Self::BandPower { .. } => {
                "band-toeplitz"
            }
            Self::BandMf { .. } => "band-mf",
            Self::BandSqrt { .. } => "band-sqrt",
            Self::BandInverse { .. } => "band-inverse",
            Self::BandInverseSqrt { .. } => "band-inverse-sqrt",
            Self::LambdaCgd => "lambda-cgd",
            Self::Dense | Self::DenseFixedEpoch => "dense",
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
    /// Where not empty, the mean loss over these rules is minimised: for runs whose min-sep is not known before.
    pub over_participations: Vec<Participation>,
}

impl Target {
    /// A setting with prefix sums as the workload.
    #[must_use]
    pub fn new(iterations: u64, participation: Participation, objective: Objective) -> Self {
        Self {
            iterations,
            participation,
            objective,
            workload: Workload::Prefix,
            over_participations: Vec::new(),
        }
    }

    /// The same setting with another workload.
    #[must_use]
    pub fn with_workload(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self
    }

    /// The same setting with the mean loss over several rules as what is minimised.
    #[must_use]
    pub fn with_participations(mut self, rules: Vec<Participation>) -> Self {
        self.over_participations = rules;
        self
    }

    /// The rules whose mean loss is minimised.
    pub(crate) fn rules(&self) -> &[Participation] {
        match self.over_participations.as_slice() {
            [] => std::slice::from_ref(&self.participation),
            rules => rules,
        }
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

    /// The objective's loss: error × sens(C), not squared; the mean over the rules where there are several.
    ///
    /// # Errors
    /// As [`Strategy::errors_on`] and [`Strategy::sensitivity`].
    pub fn loss(&self, strategy: &Strategy) -> Result<f64> {
        let rules = self.rules();
        let mut total = 0.0;
        for rule in rules {
            total += strategy.sensitivity(self.iterations, *rule)?.value;
        }
        Ok(self.error(strategy)? * total / rules.len() as f64)
    }

    /// Refuses what no strategy could be found for.
    fn check(&self) -> Result<()> {
        if self.iterations == 0 {
            return Err(invalid("iterations", 0, "1 or more"));
        }
        self.participation.check()?;
        self.over_participations.iter().try_for_each(Participation::check)?;
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
    /// The loss that was minimised: that of the target's objective, the mean over its rules.
    pub loss: f64,
    /// False when a search ran out of steps before it settled; the best point found is then returned.
    pub converged: bool,
    /// Optimiser steps taken.
    pub iterations: usize,
    /// True when the callback ended the optimisation early.
    pub stopped: bool,
}

impl Optimised {
    /// A strategy without free parameters in a setting.
    fn given(strategy: Strategy, target: &Target) -> Result<Self> {
        Self::evaluate(strategy, target, Search { steps: 0, stopped: false, converged: true })
    }

    /// Evaluates a strategy in a setting.
    pub(crate) fn evaluate(strategy: Strategy, target: &Target, search: Search) -> Result<Self> {
        let n = target.iterations;
        let sensitivity = strategy.sensitivity(n, target.participation)?;
        let errors = strategy.errors_on(n, &target.workload)?;
        if !(errors.rms.is_finite() && errors.max.is_finite()) {
            let why = "no strategy with a finite error was found".into();
            return Err(crate::StrategyError::NotOptimisable { mechanism: strategy.name(), why });
        }
        // Sensitivities can be dear: the one at hand is not found again.
        let loss = match target.over_participations.as_slice() {
            [] => target.error(&strategy)? * sensitivity.value,
            _ => target.loss(&strategy)?,
        };
        Ok(Self {
            strategy,
            sensitivity,
            rms_error: errors.rms,
            max_error: errors.max,
            rms_loss: errors.rms * sensitivity.value,
            max_loss: errors.max * sensitivity.value,
            loss,
            converged: search.converged && !search.stopped,
            iterations: search.steps,
            stopped: search.stopped,
        })
    }
}

/// Finds the parameters of `family` with the least loss in the setting `target`; families without parameters are
/// evaluated.
///
/// # Errors
/// [`crate::StrategyError::NotOptimisable`] for settings not covered; [`crate::StrategyError::NoMatrix`] for a tree on
/// anything but prefix sums;
/// [`crate::StrategyError::Invalid`] for unusable sizes.
pub fn optimize(family: Family, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimised> {
    target.check()?;
    match family {
        Family::Blt { buffers } => blt::optimise(buffers, target, progress),
        Family::BltAuto { max_buffers } => blt::optimise_auto(max_buffers, target, progress),
        Family::BandToeplitz { bands } => band_toeplitz::optimise(bands, target, progress),
        Family::BandToeplitzNormalised { bands } => normalised::optimise(bands, target, progress),
        Family::BandPower { bands } => power::optimise(bands, target, progress),
        Family::BandMf { bands } => band_mf::optimise(bands, target, progress),
        Family::BandInverse { bands } => band_inverse::optimise(bands, target, progress),
        Family::LambdaCgd => lambda::optimise(target, progress),
        Family::Dense => dense::optimise(dense::Rule::MinSep, target, progress),
        Family::DenseFixedEpoch => dense::optimise(dense::Rule::FixedEpoch, target, progress),
        Family::Identity => Optimised::given(Strategy::Identity, target),
        Family::Tree => Optimised::given(Strategy::Tree(Tree::default()), target),
        Family::BandSqrt { bands } => Optimised::given(Strategy::BandSqrt { bands }, target),
        Family::BandInverseSqrt { bands } => Optimised::given(Strategy::BandInverseSqrt { bands }, target),
    }
}

/// Refuses band counts outside 1…n.
fn check_bands(bands: usize, target: &Target) -> Result<()> {
    let rounds = crate::error::series_length(target.iterations)?;
    if bands == 0 || bands > rounds {
        return Err(invalid("bands", bands, format!("1 to {rounds}, the iterations")));
    }
    Ok(())
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
