//! The question that a statement answers, and the participation rule that covers its batches.
//!
//! A plan's participation is the rule that its noise was made for, and says nothing about how batches are drawn. The
//! figures beside an amplified one, which are the account without sampling and the event, must hold for the drawn batches
//! all the same. They are for the plan's rule, relaxed where the sampling goes beyond it.

use accounting::rewind::ReleasedRows;
use accounting::{BatchCap, Neighbouring, Partition, Sampling};
use plan::{Participation, Plan, PlanSpec};
use serde::Serialize;

use crate::bands::bands;
use crate::error::{ReportError, Result};
use crate::job::Job;
use crate::unit::Unit;

/// The assumption about how batches are formed that a statement relies on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SamplingAssumption {
    /// In any order, within the plan's participation: nothing is amplified.
    #[default]
    AnyOrder,
    /// Cyclic Poisson sampling: as many groups as C has bands, independent of the data, sampled in turn.
    CyclicPoisson {
        /// q, the average over all rounds.
        sampling_probability: f64,
        /// The way in which units were put into groups.
        partition: Partition,
        /// The cap on batches, where there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        cap: Option<BatchCap>,
    },
    /// Balls-in-bins: each unit is in one batch of every epoch, drawn once; no batch has a cap. The account is by Monte Carlo.
    BallsInBins {
        /// b, the batches of an epoch.
        batches_per_epoch: u64,
        /// The samples of the account.
        samples: u64,
        /// The seed of the account's samples.
        seed: u64,
    },
    /// Random allocation: each unit is in some batches of every epoch, drawn anew in each. There is an account where noise is
    /// independent.
    RandomAllocation {
        /// t, the batches of an epoch.
        batches_per_epoch: u64,
        /// k, the batches of an epoch that a unit joins.
        participations: u64,
    },
    /// b-min-sep: each unit joins at random and then rests, so its rounds i < j satisfy j − i ≥ min_sep; no batch has a
    /// cap. The account is by Monte Carlo.
    BMinSep {
        /// The least distance of two rounds of a unit.
        min_sep: u64,
        /// q of a unit that may join.
        sampling_probability: f64,
        /// True where the process is stationary from round 0 on.
        warm_start: bool,
        /// The samples of the account.
        samples: u64,
        /// The seed of the account's samples.
        seed: u64,
    },
}

impl SamplingAssumption {
    /// Returns the part of the assumption that an event can hold. Monte Carlo accounts have no event of their own.
    pub(crate) fn in_event(self) -> Sampling {
        match self {
            Self::CyclicPoisson { sampling_probability, partition, cap } => {
                Sampling::CyclicPoisson { sampling_probability, partition, cap }
            }
            Self::AnyOrder
            | Self::BallsInBins { .. }
            | Self::RandomAllocation { .. }
            | Self::BMinSep { .. } => Sampling::AnyOrder,
        }
    }
}

impl From<Sampling> for SamplingAssumption {
    fn from(sampling: Sampling) -> Self {
        match sampling {
            Sampling::AnyOrder => Self::AnyOrder,
            Sampling::CyclicPoisson { sampling_probability, partition, cap } => {
                Self::CyclicPoisson { sampling_probability, partition, cap }
            }
        }
    }
}

/// The question that a [`Statement`](crate::Statement) answers.
#[derive(Debug, Clone)]
pub struct Question {
    /// The plan of the run.
    pub plan: Plan,
    /// The δ to state ε at: at least one. Headlines and charts use the first.
    pub deltas: Vec<f64>,
    /// The relation under which the figures hold.
    pub neighbouring: Neighbouring,
    /// The unit of privacy.
    pub unit: Unit,
    /// The assumption about batches.
    pub assumed: SamplingAssumption,
    /// The released rows; `None` for a plan that has not run.
    pub released: Option<ReleasedRows>,
    /// The job that ran the plan, if any.
    pub job: Option<Job>,
    /// The version of the program that makes the statement.
    pub version: String,
    /// The moment at which it makes it, as text; `None` for a statement without a date.
    pub date: Option<String>,
}

impl Question {
    /// Asks about a plan that has not run, for users under zeroing out, with batches in any order.
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
            date: None,
        }
    }

    /// Returns the question about the plan under a participation that the assumed batches keep. Only the digest of that
    /// plan differs otherwise.
    pub(crate) fn relaxed_to_batches(&self) -> Result<Self> {
        let plan = with_participation(&self.plan, relaxed_to_cover(&self.plan, self.assumed))?;
        Ok(Self { plan, ..self.clone() })
    }

    /// Checks that there is noise, and that every δ is in range.
    pub(crate) fn check(&self) -> Result<()> {
        if self.plan.accounted_noise_multiplier() <= 0.0 {
            return Err(ReportError::NoNoise);
        }
        self.unit.check(self.assumed == SamplingAssumption::AnyOrder, self.neighbouring)?;
        if self.neighbouring == Neighbouring::AddRemove && self.plan.on_grid().is_some() {
            let allowed = "zero-out, replace, as a batch of one record fewer may change the bits of other gradients, which no summing \
                           error covers (docs/grid.md)";
            return Err(invalid("neighbouring relation of a plan on a grid", "add-remove", allowed));
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

/// Returns the strictest rule that allows everything that the plan's rule allows and every draw of the batches: the plan's
/// own where that is wide enough.
pub(crate) fn relaxed_to_cover(plan: &Plan, assumed: SamplingAssumption) -> Participation {
    let own = plan.participation();
    let Some(distance) = least_distance(plan, assumed) else { return own };
    let often = match assumed {
        SamplingAssumption::RandomAllocation { batches_per_epoch, participations } => {
            let epochs = plan.iterations().div_ceil(batches_per_epoch.max(1));
            participations.saturating_mul(epochs).min(plan.iterations())
        }
        _ => plan.iterations().div_ceil(distance),
    };
    // A unit that takes part once keeps any distance.
    let min_sep = if often > 1 { own.min_sep.min(distance) } else { own.min_sep };
    Participation { min_sep, max_participations: own.max_participations.max(often) }
}

/// Returns the least distance of two rounds that one unit takes. Some draw takes every such round, ⌈n/distance⌉ in all,
/// except under random allocation.
fn least_distance(plan: &Plan, assumed: SamplingAssumption) -> Option<u64> {
    match assumed {
        SamplingAssumption::AnyOrder => None,
        // A unit's group is sampled in every p-th round only. There is no account where C has no bands.
        SamplingAssumption::CyclicPoisson { .. } => bands(plan),
        // A unit's batch is drawn once and is the same in every epoch: its rounds are a whole epoch apart.
        SamplingAssumption::BallsInBins { batches_per_epoch, .. } => Some(batches_per_epoch),
        // The last round of one epoch and the first of the next are neighbours.
        SamplingAssumption::RandomAllocation { .. } => Some(1),
        SamplingAssumption::BMinSep { min_sep, .. } => Some(min_sep),
    }
    // A distance of 0 is refused elsewhere, and must not divide by zero here.
    .map(|distance| distance.max(1))
}

/// Returns the plan under another participation, for its sensitivities only: its digest differs.
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
            grid: None,
        })
        .expect("a valid plan")
    }

    #[test]
    fn a_rule_is_widened_where_sampling_goes_beyond_it() {
        let bins =
            |batches_per_epoch| SamplingAssumption::BallsInBins { batches_per_epoch, samples: 1, seed: 0 };
        let allocated = |batches_per_epoch, participations| SamplingAssumption::RandomAllocation {
            batches_per_epoch,
            participations,
        };
        let partition = accounting::Partition::Independent;
        let cyclic = SamplingAssumption::CyclicPoisson { sampling_probability: 0.1, partition, cap: None };
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
            ((100, 1), allocated(10, 1), (1, 10)),
            ((5, 20), allocated(10, 3), (1, 30)),
            ((1, 100), allocated(0, 200), (1, 100)),
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
        assert_eq!((wide.participation(), wide.coefficients().ok()), (rule, plan.coefficients().ok()));
        let of = |plan: &Plan| plan.accounted_sensitivity().expect("a small plan").value;
        assert!(of(&wide) > 3.0 * of(&plan));
        assert_eq!(
            with_participation(&plan, plan.participation()).expect("a valid plan").digest(),
            plan.digest()
        );
    }
}
