//! A plan's run as an event of `accounting`, and whether an event is of a plan.

use accounting::{Event, MatrixMechanism, Sampling};
use plan::{Participation, Plan};

use crate::error::{ReportError, Result};
use crate::question::{relaxed_to_cover, with_participation};

pub use crate::bands::bands;

/// Sensitivities this much lower, relatively, are rounding of what was written down.
const ROUNDING: f64 = 1e-12;

/// The whole run of a plan, with all that an account needs and the plan's digest. Its participation is the plan's, or
/// wider where the sampling is.
///
/// # Errors
/// What has no sensitivity within memory.
pub fn for_plan(plan: &Plan, sampling: Sampling) -> Result<Event> {
    let relaxed = with_participation(plan, relaxed_to_cover(plan, sampling.into()))?;
    of_relaxed(plan, &relaxed, sampling)
}

/// The event of `plan`, `relaxed` being that plan under a participation that the batches keep.
pub(crate) fn of_relaxed(plan: &Plan, relaxed: &Plan, sampling: Sampling) -> Result<Event> {
    let plan_digest = hex::encode(plan.digest());
    Ok(Event::MatrixMechanism(MatrixMechanism { plan_digest, ..run_of(relaxed, sampling)? }))
}

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
        plan_digest: hex::encode(plan.digest()),
    })
}

/// Ok where an account of `event` holds for a run of `plan`: the digest is the plan's (where it has one), and no
/// number makes the event cheaper than the plan. A participation may be wider than the plan's, for batches that are
/// sampled so; the sensitivity has to be that under it.
///
/// # Errors
/// [`ReportError::NotOfPlan`] naming the number; what has no sensitivity within memory.
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
    at_least("sensitivity", run.sensitivity, relaxed.accounted_sensitivity()?.value)?;
    at_least("largest_column_norm", run.largest_column_norm, plan.accounted_column_norm()?)
}

/// The event's participation, which has to allow whatever the plan's does.
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
