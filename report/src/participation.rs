//! Which rounds one unit takes: by the plan, and by the sampling that is assumed.
//!
//! A plan's participation is what its noise was made for, and says nothing of how batches are drawn. What is stated
//! beside an amplified figure, the account without sampling and the event, has to hold for the batches that are drawn
//! all the same: it is for the plan's rule, widened where the sampling goes beyond it.

use plan::{Participation, Plan, PlanSpec};

use crate::error::Result;
use crate::event;
use crate::question::Assumed;

/// The least rule that allows what the plan's does and what any draw of the batches can be. The plan's own where that
/// is wide enough.
pub(crate) fn covering(plan: &Plan, assumed: Assumed) -> Participation {
    let own = plan.participation();
    let Some(apart) = apart(plan, assumed) else { return own };
    let often = plan.iterations().div_ceil(apart);
    // Who takes part once keeps any distance.
    let min_sep = if often > 1 { own.min_sep.min(apart) } else { own.min_sep };
    Participation { min_sep, max_participations: own.max_participations.max(often) }
}

/// The least distance of two rounds that one unit takes. However the draw falls out, it may take the next such round
/// too: ⌈n/distance⌉ in all.
fn apart(plan: &Plan, assumed: Assumed) -> Option<u64> {
    match assumed {
        Assumed::AnyOrder => None,
        // A unit's group is sampled in every p-th round alone; it has no account where C has no bands.
        Assumed::CyclicPoisson { .. } => event::bands(plan),
        // A unit's batch is drawn once and is the same in every epoch: its rounds are a whole epoch apart.
        Assumed::BallsInBins { batches_per_epoch, .. } => Some(batches_per_epoch),
        Assumed::BMinSep { min_sep, .. } => Some(min_sep),
    }
    // What is refused elsewhere must not divide by zero here.
    .map(|apart| apart.max(1))
}

/// The plan as it were under another participation, for its sensitivities alone: its digest is another's.
pub(crate) fn under(plan: &Plan, rule: Participation) -> Result<Plan> {
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
        let bins = |batches_per_epoch| Assumed::BallsInBins { batches_per_epoch, samples: 1, seed: 0 };
        let partition = accounting::Partition::Independent;
        let cyclic = Assumed::CyclicPoisson { sampling_probability: 0.1, partition };
        let resting = Assumed::BMinSep {
            min_sep: 9,
            sampling_probability: 0.1,
            warm_start: false,
            samples: 1,
            seed: 0,
        };
        for (own, assumed, covered) in [
            ((100, 1), Assumed::AnyOrder, (100, 1)),
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
            let found = covering(&plan(own.0, own.1), assumed);
            assert_eq!((found.min_sep, found.max_participations), covered, "{own:?} {assumed:?}");
        }
    }

    #[test]
    fn a_plan_under_another_rule_is_the_same_but_for_it() {
        let plan = plan(100, 1);
        let rule = Participation { min_sep: 10, max_participations: 10 };
        let wide = under(&plan, rule).expect("a valid plan");
        assert_eq!((wide.participation(), wide.coefficients()), (rule, plan.coefficients()));
        let of = |plan: &Plan| plan.accounted_sensitivity().expect("a small plan").value;
        assert!(of(&wide) > 3.0 * of(&plan));
        assert_eq!(under(&plan, plan.participation()).expect("a valid plan").digest(), plan.digest());
    }
}
