//! The statement as data: one JSON object.

use accounting::rewind::{AbandonedRows, Charge, ReleasedRows, charge_with};
use accounting::{Event, Neighbouring};
use plan::{Participation, Plan, STREAM_VERSION};
use serde::Serialize;
use strategy::Sensitivity;

use crate::error::{ReportError, Result, within_reach};
use crate::event;
use crate::figures::Figures;
use crate::grid_facts::GridFacts;
use crate::job::Job;
use crate::privacy_curve::PrivacyCurve;
use crate::question::{Question, SamplingAssumption, invalid};
use crate::unit::Unit;

/// The version of the fields of the JSON object.
const REPORT: u32 = 1;

/// The guarantee of a run, and everything that it rests on.
#[derive(Debug, Clone, Serialize)]
pub struct Statement {
    /// The version of these fields.
    pub report: u32,
    /// The subject: `plan` before a run, `job` or `released` where rows have been released.
    pub of: &'static str,
    /// The trust model, `central`.
    pub setting: &'static str,
    /// The unit of privacy.
    pub unit: Unit,
    /// The relation under which the figures hold.
    pub adjacency: Neighbouring,
    /// The method: `gaussian`, `privacy-loss-distribution` or `monte-carlo`.
    pub accounting: &'static str,
    /// The figures of all rows of the plan.
    #[serde(flatten)]
    pub figures: Figures,
    /// False where ε is that of an upper bound of the sensitivity.
    pub exact: bool,
    /// The assumption about batches.
    pub sampling: SamplingAssumption,
    /// The figures without that assumption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_sampling: Option<Figures>,
    /// The reason why there are no figures without that assumption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_sampling_unknown: Option<String>,
    /// The name of the mechanism.
    pub mechanism: String,
    /// n, the rounds of the plan.
    pub iterations: u64,
    /// The bands of C, where it has any.
    pub bands: Option<u64>,
    /// The least distance of two participations that the figures without sampling are for: that of the plan, or a smaller
    /// one where the sampling goes below it.
    pub min_sep: u64,
    /// The most participations that the figures without sampling are for: those of the plan, or more where the sampling
    /// goes beyond them.
    pub max_participations: u64,
    /// The plan's own participation, where the assumed batches don't keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_participation: Option<PlanParticipation>,
    /// σ, in units of the clip norm.
    pub noise_multiplier: f64,
    /// ζ, the norm that contributions are clipped to.
    pub clip_norm: f64,
    /// The grid of integers that noise and sums are on; without one they are floating-point numbers, in whose arithmetic
    /// nothing is guaranteed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<GridFacts>,
    /// The sensitivity per unit clip norm under zeroing out, abandoned rows included. Replacing a unit doubles it.
    pub sensitivity: f64,
    /// False where the sensitivity is an upper bound.
    pub sensitivity_exact: bool,
    /// The sensitivity of the plan's run without abandoned rows.
    pub sensitivity_planned: f64,
    /// The rows released so far; `None` for a plan that has not run.
    pub released: Option<ReleasedSoFar>,
    /// The job that ran the plan, if any.
    pub job: Option<Job>,
    /// The digest of the plan, hexadecimal.
    pub plan_digest: String,
    /// The digest of the layout of the parameters, hexadecimal, where the plan has one.
    pub layout_digest: Option<String>,
    /// The version of the noise stream.
    pub stream_version: u32,
    /// The rounds of ChaCha that the noise is drawn with.
    pub chacha_rounds: u32,
    /// The version of the program that made the statement.
    pub rustle_version: String,
    /// The moment at which the statement was made, where the program states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The run as an event of the accountant, for `rustle account event`.
    pub event: Event,
}

/// The plan's own participation, where the figures are for a wider one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlanParticipation {
    /// The least distance of two participations.
    pub min_sep: u64,
    /// The most participations.
    pub max_participations: u64,
}

/// The rows released so far, and their cost if no further row is released.
#[derive(Debug, Clone, Serialize)]
pub struct ReleasedSoFar {
    /// The number of released rows, those of abandoned branches included.
    pub rows: u64,
    /// The number of leading rows of the last branch's lineage that are charged for.
    pub reached: u64,
    /// The released rows, branch by branch.
    #[serde(flatten)]
    pub released: ReleasedRows,
    /// The stretches of rows that only abandoned branches have.
    pub abandoned: Vec<AbandonedRows>,
    /// The sensitivity of all of them per unit clip norm.
    pub sensitivity: f64,
    /// False where the sensitivity is an upper bound.
    pub sensitivity_exact: bool,
    /// The figures of these rows.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Statement {
    /// Answers a question.
    ///
    /// # Errors
    /// [`ReportError`] for a plan without noise, numbers outside their range, released rows that no job can have, and where no
    /// account is known, such as for sampled batches in a job that went back.
    pub fn new(question: &Question) -> Result<Self> {
        question.check()?;
        let relaxed = question.relaxed_to_batches()?;
        let plan = &question.plan;
        let charge = charge(&relaxed)?;
        let unsampled = PrivacyCurve::gaussian(plan, charge.total().value, question.neighbouring);
        let unsampled = unsampled.figures(&question.deltas);
        let amplified = PrivacyCurve::amplified(&relaxed, plan.iterations())?;
        let (figures, without) = match &amplified {
            Some(curve) => (curve.figures(&question.deltas)?, Some(within_reach(unsampled)?)),
            None => (unsampled?, None),
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
            released: so_far(&relaxed, &charge, &figures)?,
            figures,
            sampling: question.assumed,
            without_sampling: without.clone().and_then(Result::ok),
            without_sampling_unknown: without.and_then(Result::err),
            mechanism: plan.mechanism().name().to_owned(),
            iterations: plan.iterations(),
            bands: event::bands(plan),
            min_sep: rule.min_sep,
            max_participations: rule.max_participations,
            plan_participation: (own != rule).then_some(PlanParticipation { min_sep, max_participations }),
            noise_multiplier: plan.noise_multiplier(),
            clip_norm: plan.clip_norm(),
            grid: GridFacts::of(plan),
            sensitivity,
            sensitivity_exact,
            sensitivity_planned: charge.planned.value,
            job: question.job.clone(),
            plan_digest: hex::encode(plan.digest()),
            layout_digest: plan.layout().map(|layout| hex::encode(layout.digest())),
            stream_version: STREAM_VERSION,
            chacha_rounds: plan.chacha_rounds(),
            rustle_version: question.version.clone(),
            date: question.date.clone(),
            event: event::of_relaxed(plan, &relaxed.plan, question.assumed.in_event())?,
        })
    }
}

/// Computes the charge of all released rows; a plan that has not run is charged for its whole run. The question must be
/// relaxed to its batches before.
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

/// Returns the cost of the released rows, which is at most that of `all` rows of the plan.
fn so_far(question: &Question, charge: &Charge, all: &Figures) -> Result<Option<ReleasedSoFar>> {
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
        figures: within_reach(curve.figures(&question.deltas))?.unwrap_or_else(|_| all.clone()),
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
        Some(PrivacyCurve::Rounds { .. }) => "privacy-loss-distribution",
        Some(PrivacyCurve::Sampled { .. }) => "monte-carlo",
    }
}
