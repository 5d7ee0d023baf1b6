//! A plan's run as an event of `accounting`, and the check that an event describes a plan.

use accounting::{Event, MatrixMechanism, Sampling};
use plan::{Participation, Plan};

use crate::error::{ReportError, Result};
use crate::question::{relaxed_to_cover, with_participation};

pub use crate::bands::bands;

/// A sensitivity this much lower, relatively, counts as rounding of a written number.
const ROUNDING: f64 = 1e-12;

/// Describes the whole run of a plan, with everything an account needs and the plan's digest. The participation is that of
/// the plan, or wider where the sampling is.
///
/// # Errors
/// [`ReportError::Plan`] for a plan whose sensitivity does not fit in memory.
pub fn for_plan(plan: &Plan, sampling: Sampling) -> Result<Event> {
    let relaxed = with_participation(plan, relaxed_to_cover(plan, sampling.into()))?;
    of_relaxed(plan, &relaxed, sampling)
}

/// Describes the run of `plan`, where `relaxed` is that plan under a participation that the batches keep.
pub(crate) fn of_relaxed(plan: &Plan, relaxed: &Plan, sampling: Sampling) -> Result<Event> {
    let plan_digest = hex::encode(plan.digest());
    Ok(Event::MatrixMechanism(MatrixMechanism { plan_digest, ..run_of(relaxed, sampling)? }))
}

/// Describes the whole run of a plan under its own participation.
pub(crate) fn run_of(plan: &Plan, sampling: Sampling) -> Result<MatrixMechanism> {
    let rule = plan.participation();
    Ok(MatrixMechanism {
        noise_multiplier: plan.accounted_noise_multiplier(),
        iterations: plan.iterations(),
        sensitivity: plan.accounted_sensitivity()?.value,
        bands: bands(plan),
        largest_column_norm: plan.accounted_column_norm()?,
        min_sep: rule.min_sep,
        max_participations: rule.max_participations,
        sampling,
        failure_probability: plan.failure_probability(),
        plan_digest: hex::encode(plan.digest()),
    })
}

/// Checks that an account of `event` holds for a run of `plan`: the digest, if there is one, is that of the plan, and no
/// number makes the event cheaper than the plan. The participation may be wider than that of the plan, for batches that are
/// sampled so; the sensitivity must then be the one under it.
///
/// # Errors
/// [`ReportError::NotOfPlan`] naming the number; [`ReportError::Plan`] for a plan whose sensitivity does not fit in memory.
pub fn check(event: &Event, plan: &Plan) -> Result<()> {
    let Event::MatrixMechanism(run) = event else {
        return Err(not_of("kind", event.name(), "matrix-mechanism"));
    };
    let digest = hex::encode(plan.digest());
    if !run.plan_digest.is_empty() {
        same("plan_digest", &run.plan_digest, &digest)?;
    }
    same("iterations", &run.iterations, &plan.iterations())?;
    let relaxed = with_participation(plan, rule_of(run, plan)?)?;
    let noise = plan.accounted_noise_multiplier();
    if run.noise_multiplier.is_nan() || run.noise_multiplier > noise {
        return Err(not_of("noise_multiplier", run.noise_multiplier, format!("at most {noise}")));
    }
    match (run.bands, bands(plan)) {
        (Some(given), Some(bands)) if given >= bands => {}
        (None, _) => {}
        (Some(given), Some(bands)) => return Err(not_of("bands", given, format!("at least {bands}"))),
        (Some(given), None) => return Err(not_of("bands", given, "none: C has no bands")),
    }
    at_least("failure_probability", run.failure_probability, plan.failure_probability())?;
    at_least("sensitivity", run.sensitivity, relaxed.accounted_sensitivity()?.value)?;
    at_least("largest_column_norm", run.largest_column_norm, plan.accounted_column_norm()?)
}

/// Returns the event's participation, which must allow everything that the plan's does.
fn rule_of(run: &MatrixMechanism, plan: &Plan) -> Result<Participation> {
    let own = plan.participation();
    let min_sep = run.min_sep;
    let most = run.max_participations;
    if !(1..=own.min_sep).contains(&min_sep) {
        return Err(not_of("min_sep", min_sep, format!("1 to {}", own.min_sep)));
    }
    if most < own.max_participations || i64::try_from(most).is_err() {
        let allowed = format!("{} to {}", own.max_participations, i64::MAX);
        return Err(not_of("max_participations", most, allowed));
    }
    Ok(Participation { min_sep, max_participations: most })
}

fn same<T: PartialEq + std::fmt::Display>(what: &'static str, given: &T, plans: &T) -> Result<()> {
    if given == plans { Ok(()) } else { Err(not_of(what, given, plans)) }
}

fn at_least(what: &'static str, given: f64, plans: f64) -> Result<()> {
    let fine = given >= plans * (1.0 - ROUNDING);
    if fine { Ok(()) } else { Err(not_of(what, given, format!("at least {plans}"))) }
}

fn not_of(what: &'static str, value: impl std::fmt::Display, allowed: impl std::fmt::Display) -> ReportError {
    ReportError::NotOfPlan { what, value: value.to_string(), allowed: allowed.to_string() }
}
