//! What a statement is asked for.

use accounting::rewind::ReleasedRows;
use accounting::{Neighbouring, Partition, Sampling};
use plan::{Participation, Plan, PlanSpec};
use serde::Serialize;

use crate::bands::bands;
use crate::error::{ReportError, Result};
use crate::job::Job;

/// Whose contributions the sensitivity bounds: what is clipped to the clip norm in every round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    #[default]
    User,
    Example,
    Device,
}

/// What is assumed of how batches were formed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SamplingAssumption {
    /// Anyhow, within the plan's participation: nothing is amplified.
    #[default]
    AnyOrder,
    /// As many groups as C has bands, independent of the data, sampled in turn at average rate q.
    CyclicPoisson { sampling_probability: f64, partition: Partition },
    /// Each unit in one batch of every epoch, drawn once; accounted for by Monte Carlo.
    BallsInBins { batches_per_epoch: u64, samples: u64, seed: u64 },
    /// Each unit joins at random and then rests: rounds i < j of it satisfy j − i ≥ min_sep. By Monte Carlo.
    BMinSep { min_sep: u64, sampling_probability: f64, warm_start: bool, samples: u64, seed: u64 },
}

impl SamplingAssumption {
    /// Returns the part of the assumption that an event can hold. Monte Carlo accounts have no event of their own.
    pub(crate) fn in_event(self) -> Sampling {
        match self {
            Self::CyclicPoisson { sampling_probability, partition } => {
                Sampling::CyclicPoisson { sampling_probability, partition }
            }
            Self::AnyOrder | Self::BallsInBins { .. } | Self::BMinSep { .. } => Sampling::AnyOrder,
        }
    }
}

impl From<Sampling> for SamplingAssumption {
    fn from(sampling: Sampling) -> Self {
        match sampling {
            Sampling::AnyOrder => Self::AnyOrder,
            Sampling::CyclicPoisson { sampling_probability, partition } => {
                Self::CyclicPoisson { sampling_probability, partition }
            }
        }
    }
}

/// What to state.
#[derive(Debug, Clone)]
pub struct Question {
    pub plan: Plan,
    /// At least one; the first is the one that headlines use.
    pub deltas: Vec<f64>,
    pub neighbouring: Neighbouring,
    pub unit: Unit,
    pub assumed: SamplingAssumption,
    /// What has been released; `None` for a plan that has not run.
    pub released: Option<ReleasedRows>,
    pub job: Option<Job>,
    /// Of the program that states it.
    pub version: String,
}

impl Question {
    /// Of a plan that has not run, for users zeroed out, batches being formed anyhow.
    #[must_use]
    pub fn for_plan(plan: Plan, deltas: Vec<f64>, version: impl Into<String>) -> Self {
        Self {
            plan,
            deltas,
            neighbouring: Neighbouring::ZeroOut,
            unit: Unit::User,
            assumed: SamplingAssumption::AnyOrder,
            released: None,
            job: None,
            version: version.into(),
        }
    }

    /// The same of the plan under a participation that the assumed batches keep; only its digest is another's.
    pub(crate) fn relaxed_to_batches(&self) -> Result<Self> {
        let plan = with_participation(&self.plan, relaxed_to_cover(&self.plan, self.assumed))?;
        Ok(Self { plan, ..self.clone() })
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.plan.accounted_noise_multiplier() <= 0.0 {
            return Err(ReportError::NoNoise);
        }
        let outside = |delta: &&f64| !(**delta > 0.0 && **delta < 1.0);
        let allowed = "strictly between 0 and 1";
        match self.deltas.iter().find(outside) {
            _ if self.deltas.is_empty() => Err(invalid("delta", "not given", allowed)),
            Some(delta) => Err(invalid("delta", delta, allowed)),
            None => Ok(()),
        }
    }
}

pub(crate) fn invalid(
    what: &'static str,
    value: impl std::fmt::Display,
    allowed: impl Into<String>,
) -> ReportError {
    ReportError::Invalid { what, value: value.to_string(), allowed: allowed.into() }
}

/// The least rule that allows what the plan's does and what any draw of the batches can be. The plan's own where that
/// is wide enough.
pub(crate) fn relaxed_to_cover(plan: &Plan, assumed: SamplingAssumption) -> Participation {
    let own = plan.participation();
    let Some(distance) = least_distance(plan, assumed) else { return own };
    let often = plan.iterations().div_ceil(distance);
    // Who takes part once keeps any distance.
    let min_sep = if often > 1 { own.min_sep.min(distance) } else { own.min_sep };
    Participation { min_sep, max_participations: own.max_participations.max(often) }
}

/// The least distance of two rounds that one unit takes. However the draw falls out, it may take the next such round
/// too: ⌈n/distance⌉ in all.
fn least_distance(plan: &Plan, assumed: SamplingAssumption) -> Option<u64> {
    match assumed {
        SamplingAssumption::AnyOrder => None,
        // A unit's group is sampled in every p-th round alone; it has no account where C has no bands.
        SamplingAssumption::CyclicPoisson { .. } => bands(plan),
        // A unit's batch is drawn once and is the same in every epoch: its rounds are a whole epoch apart.
        SamplingAssumption::BallsInBins { batches_per_epoch, .. } => Some(batches_per_epoch),
        SamplingAssumption::BMinSep { min_sep, .. } => Some(min_sep),
    }
    // What is refused elsewhere must not divide by zero here.
    .map(|distance| distance.max(1))
}

/// The plan as it were under another participation, for its sensitivities alone: its digest is another's.
pub(crate) fn with_participation(plan: &Plan, rule: Participation) -> Result<Plan> {
    if rule == plan.participation() {
        return Ok(plan.clone());
    }
    Ok(Plan::new(PlanSpec { participation: rule, ..plan.spec().clone() })?)
}

#[cfg(test)]
mod tests {
    use plan::Mechanism;

    use super::*;

    fn plan(min_sep: u64, max_participations: u64) -> Plan {
        Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: 100,
            noise_multiplier: 4.0,
            clip_norm: 1.0,
            participation: Participation { min_sep, max_participations },
            mechanism: Mechanism::BandSqrt { bands: 8 },
            layout: None,
        })
        .expect("a valid plan")
    }

    #[test]
    fn a_rule_is_widened_where_sampling_goes_beyond_it() {
        let bins =
            |batches_per_epoch| SamplingAssumption::BallsInBins { batches_per_epoch, samples: 1, seed: 0 };
        let partition = accounting::Partition::Independent;
        let cyclic = SamplingAssumption::CyclicPoisson { sampling_probability: 0.1, partition };
        let resting = SamplingAssumption::BMinSep {
            min_sep: 9,
            sampling_probability: 0.1,
            warm_start: false,
            samples: 1,
            seed: 0,
        };
        for (own, assumed, covered) in [
            ((100, 1), SamplingAssumption::AnyOrder, (100, 1)),
            ((100, 1), bins(10), (10, 10)),
            ((10, 10), bins(10), (10, 10)),
            ((5, 20), bins(10), (5, 20)),
            ((5, 3), bins(10), (5, 10)),
            ((20, 30), bins(10), (10, 30)),
            // One epoch: each takes part once, at whatever distance.
            ((500, 1), bins(100), (500, 1)),
            ((500, 1), bins(0), (1, 100)),
            ((100, 1), cyclic, (8, 13)),
            ((100, 1), resting, (9, 12)),
        ] {
            let found = relaxed_to_cover(&plan(own.0, own.1), assumed);
            assert_eq!((found.min_sep, found.max_participations), covered, "{own:?} {assumed:?}");
        }
    }

    #[test]
    fn a_plan_under_another_rule_is_the_same_but_for_it() {
        let plan = plan(100, 1);
        let rule = Participation { min_sep: 10, max_participations: 10 };
        let wide = with_participation(&plan, rule).expect("a valid plan");
        assert_eq!((wide.participation(), wide.coefficients()), (rule, plan.coefficients()));
        let of = |plan: &Plan| plan.accounted_sensitivity().expect("a small plan").value;
        assert!(of(&wide) > 3.0 * of(&plan));
        assert_eq!(
            with_participation(&plan, plan.participation()).expect("a valid plan").digest(),
            plan.digest()
        );
    }
}
