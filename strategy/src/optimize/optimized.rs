//! The result of an optimization.

use super::lbfgs::Search;
use super::target::Target;
use crate::error::{Result, StrategyError};
use crate::participation::Sensitivity;
use crate::strategy::Strategy;

/// An optimized strategy with what it achieves in its setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimized {
    /// The best strategy found.
    pub strategy: Strategy,
    /// sens(C) per unit clip norm, under the target's participation.
    pub sensitivity: Sensitivity,
    /// RmsError on the target's workload, in units of σζ.
    pub rms_error: f64,
    /// MaxError on the target's workload, in units of σζ.
    pub max_error: f64,
    /// RmsError · sens(C).
    pub rms_loss: f64,
    /// MaxError · sens(C).
    pub max_loss: f64,
    /// The loss of the target's objective, which was minimised; the mean over the target's rules.
    pub loss: f64,
    /// False when a search ran out of steps before it settled; the best point found is then returned.
    pub converged: bool,
    /// Optimizer steps taken.
    pub iterations: usize,
    /// True when the callback ended the optimization early.
    pub stopped: bool,
}

impl Optimized {
    /// Evaluates a strategy that has no free parameters.
    pub(super) fn from_fixed(strategy: Strategy, target: &Target) -> Result<Self> {
        Self::evaluate(strategy, target, Search { steps: 0, stopped: false, converged: true })
    }

    /// Evaluates a strategy in a setting.
    pub(crate) fn evaluate(strategy: Strategy, target: &Target, search: Search) -> Result<Self> {
        let n = target.iterations;
        let sensitivity = strategy.sensitivity(n, target.participation)?;
        let errors = strategy.errors_on(n, &target.workload)?;
        if !(errors.rms.is_finite() && errors.max.is_finite()) {
            let why = "no strategy with a finite error was found".into();
            return Err(StrategyError::NotOptimizable { mechanism: strategy.name(), why });
        }
        // Sensitivities can be expensive, so the one already computed is used.
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
