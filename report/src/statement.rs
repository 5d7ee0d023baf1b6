//! The statement as data: one JSON object.

use accounting::rewind::{AbandonedRows, Charge, ReleasedRows, charge_with};
use accounting::{Event, Neighbouring};
use plan::{Participation, Plan, STREAM_VERSION};
use serde::Serialize;
use strategy::Sensitivity;

use crate::error::{ReportError, Result};
use crate::event;
use crate::figures::Figures;
use crate::job::Job;
use crate::privacy_curve::PrivacyCurve;
use crate::question::{Question, SamplingAssumption, Unit, invalid};

/// The version of the object's fields.
const REPORT: u32 = 1;

/// What a run promises, and everything that the promise rests on.
#[derive(Debug, Clone, Serialize)]
pub struct Statement {
    pub report: u32,
    /// `plan` before a run, `job` or `released` for what has left.
    pub of: &'static str,
    pub setting: &'static str,
    pub unit: Unit,
    pub adjacency: Neighbouring,
    /// `gaussian`, `privacy-loss-distribution` or `monte-carlo`.
    pub accounting: &'static str,
    #[serde(flatten)]
    pub figures: Figures,
    /// False where ε is that of an upper bound of the sensitivity.
    pub exact: bool,
    pub sampling: SamplingAssumption,
    /// The same without relying on how batches were formed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_sampling: Option<Figures>,
    pub mechanism: String,
    pub iterations: u64,
    pub bands: Option<u64>,
    /// What the figures without sampling are for: the plan's participation, wider where the sampling is.
    pub min_sep: u64,
    pub max_participations: u64,
    /// The plan's own participation, where the batches that are assumed don't keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_participation: Option<PlanParticipation>,
    pub noise_multiplier: f64,
    pub clip_norm: f64,
    /// Per unit clip norm under zeroing out, abandoned rows included; doubled where a unit is replaced.
    pub sensitivity: f64,
    pub sensitivity_exact: bool,
    /// Of the plan's run alone.
    pub sensitivity_planned: f64,
    pub released: Option<ReleasedSoFar>,
    pub job: Option<Job>,
    pub plan_digest: String,
    pub layout_digest: Option<String>,
    pub stream_version: u32,
    pub chacha_rounds: u32,
    pub rustle_version: String,
    /// The run as an event of the accountant, which `rustle account event` takes.
    pub event: Event,
}

/// A participation that the figures are not for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlanParticipation {
    pub min_sep: u64,
    pub max_participations: u64,
}

/// What has left, and what it costs if nothing more does.
#[derive(Debug, Clone, Serialize)]
pub struct ReleasedSoFar {
    /// In all, those of abandoned branches among them.
    pub rows: u64,
    /// Rows 0..this of the last branch's lineage.
    pub reached: u64,
    #[serde(flatten)]
    pub released: ReleasedRows,
    pub abandoned: Vec<AbandonedRows>,
    pub sensitivity: f64,
    pub sensitivity_exact: bool,
    #[serde(flatten)]
    pub figures: Figures,
}

impl Statement {
    /// # Errors
    /// [`ReportError`]: no noise, numbers outside their range, released rows that can't be, an account that
    /// isn't known, such as that of sampled batches in a job that went back.
    pub fn new(question: &Question) -> Result<Self> {
        question.check()?;
        let relaxed = question.relaxed_to_batches()?;
        let plan = &question.plan;
        let charge = charge(&relaxed)?;
        let unsampled = PrivacyCurve::gaussian(plan, charge.total().value, question.neighbouring);
        let unsampled = unsampled.figures(&question.deltas)?;
        let amplified = PrivacyCurve::amplified(&relaxed, plan.iterations())?;
        let (figures, without_sampling) = match &amplified {
            Some(curve) => (curve.figures(&question.deltas)?, Some(unsampled)),
            None => (unsampled, None),
        };
        let own = plan.participation();
        let rule = relaxed.plan.participation();
        let Participation { min_sep, max_participations } = own;
        let Sensitivity { value: sensitivity, exact: sensitivity_exact } = charge.total();
        Ok(Self {
            report: REPORT,
            of: subject(question),
            setting: "central",
            unit: question.unit,
            adjacency: question.neighbouring,
            accounting: method(amplified.as_ref()),
            exact: amplified.is_none() && sensitivity_exact,
            figures,
            sampling: question.assumed,
            without_sampling,
            mechanism: plan.mechanism().name().to_owned(),
            iterations: plan.iterations(),
            bands: event::bands(plan),
            min_sep: rule.min_sep,
            max_participations: rule.max_participations,
            plan_participation: (own != rule).then_some(PlanParticipation { min_sep, max_participations }),
            noise_multiplier: plan.noise_multiplier(),
            clip_norm: plan.clip_norm(),
            sensitivity,
            sensitivity_exact,
            sensitivity_planned: charge.planned.value,
            released: so_far(&relaxed, &charge)?,
            job: question.job.clone(),
            plan_digest: hex::encode(plan.digest()),
            layout_digest: plan.layout().map(|layout| hex::encode(layout.digest())),
            stream_version: STREAM_VERSION,
            chacha_rounds: plan.chacha_rounds(),
            rustle_version: question.version.clone(),
            event: event::of_relaxed(plan, &relaxed.plan, question.assumed.in_event())?,
        })
    }
}

/// What all that was released costs; a plan that has not run costs its whole run. Of a question that is relaxed.
pub(crate) fn charge(question: &Question) -> Result<Charge> {
    let plan: &Plan = &question.plan;
    let straight = ReleasedRows::straight(0);
    let released = question.released.as_ref().unwrap_or(&straight);
    let charge = charge_with(plan.iterations(), released, |rows| {
        plan.accounted_sensitivity_of(rows).map_err(ReportError::from)
    })?;
    if !charge.abandoned.is_empty() && question.assumed != SamplingAssumption::AnyOrder {
        let value = format!("sampled batches in a job that abandoned {} stretches", charge.abandoned.len());
        let allowed = "any-order: a branch may repeat the batches of the one that it left, so its rows add \
                       to no amplified account";
        return Err(invalid("sampling", value, allowed));
    }
    Ok(charge)
}

fn so_far(question: &Question, charge: &Charge) -> Result<Option<ReleasedSoFar>> {
    let Some(released) = &question.released else { return Ok(None) };
    let Sensitivity { value, exact } = charge.so_far();
    let unsampled = PrivacyCurve::gaussian(&question.plan, value, question.neighbouring);
    let curve = PrivacyCurve::of_rounds(question, charge.reached)?.unwrap_or(unsampled);
    Ok(Some(ReleasedSoFar {
        rows: released.rows(),
        reached: charge.reached,
        released: released.clone(),
        abandoned: charge.abandoned.clone(),
        sensitivity: value,
        sensitivity_exact: exact,
        figures: curve.figures(&question.deltas)?,
    }))
}

fn subject(question: &Question) -> &'static str {
    match (&question.job, &question.released) {
        (Some(_), _) => "job",
        (None, Some(_)) => "released",
        (None, None) => "plan",
    }
}

fn method(amplified: Option<&PrivacyCurve>) -> &'static str {
    match amplified {
        None | Some(PrivacyCurve::Gaussian { .. }) => "gaussian",
        Some(PrivacyCurve::Rounds(_)) => "privacy-loss-distribution",
        Some(PrivacyCurve::Sampled { .. }) => "monte-carlo",
    }
}
