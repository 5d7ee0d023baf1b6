//! The setting of an optimization.

use crate::error::{Result, invalid};
use crate::loss::Objective;
use crate::participation::Participation;
use crate::strategy::Strategy;
use crate::workload::Workload;

/// The setting a strategy is optimized for. Participations satisfy **j − i ≥ min_sep**.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Target {
    /// Rounds n of the run.
    pub iterations: u64,
    /// The participation rule of the sensitivity.
    pub participation: Participation,
    /// The loss to minimise.
    pub objective: Objective,
    /// The queries that are released; prefix sums unless set.
    pub workload: Workload,
    /// Rules whose mean loss is minimised, for runs whose min-sep is not known beforehand; empty for
    /// [`Self::participation`] alone.
    pub over_participations: Vec<Participation>,
    /// Least relative gain of the loss over ten steps at which a search of bands or of scales continues; 0 for its own, 1e-9 to
    /// 1e-7.
    pub least_gain: f64,
}

impl Target {
    /// Returns a setting with prefix sums as the workload.
    #[must_use]
    pub fn new(iterations: u64, participation: Participation, objective: Objective) -> Self {
        Self {
            iterations,
            participation,
            objective,
            workload: Workload::Prefix,
            over_participations: Vec::new(),
            least_gain: 0.0,
        }
    }

    /// Returns the same setting with another workload.
    #[must_use]
    pub fn with_workload(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self
    }

    /// Returns the same setting, in which the mean loss over several rules is minimised.
    #[must_use]
    pub fn with_participations(mut self, rules: Vec<Participation>) -> Self {
        self.over_participations = rules;
        self
    }

    /// Returns the same setting for a comparison: a search of bands or of scales, the longest, ends once ten steps together gain
    /// less than `least_gain` of the loss.
    #[must_use]
    pub fn with_least_gain(mut self, least_gain: f64) -> Self {
        self.least_gain = least_gain;
        self
    }

    /// Returns the rules whose mean loss is minimised, at least one.
    pub(crate) fn rules(&self) -> &[Participation] {
        match self.over_participations.as_slice() {
            [] => std::slice::from_ref(&self.participation),
            rules => rules,
        }
    }

    /// Returns the objective's error of `strategy` on this workload, in units of σζ times those of its rows.
    ///
    /// # Errors
    /// Fails as [`Strategy::errors_on`] does.
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

    /// Returns the objective's loss: error × sens(C), not squared; the mean over the rules where there are several.
    ///
    /// # Errors
    /// Fails as [`Strategy::errors_on`] and [`Strategy::sensitivity`] do.
    pub fn loss(&self, strategy: &Strategy) -> Result<f64> {
        let rules = self.rules();
        let mut total = 0.0;
        for rule in rules {
            total += strategy.sensitivity(self.iterations, *rule)?.value;
        }
        Ok(self.error(strategy)? * total / rules.len() as f64)
    }

    /// Refuses a setting that no strategy could be found for.
    pub(super) fn check(&self) -> Result<()> {
        if self.iterations == 0 {
            return Err(invalid("iterations", 0, "1 or more"));
        }
        self.participation.check()?;
        self.over_participations.iter().try_for_each(Participation::check)?;
        self.objective.check(self.iterations)?;
        self.workload.check(self.iterations)
    }
}
