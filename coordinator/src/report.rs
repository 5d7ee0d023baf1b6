//! The report on a job: what it has released and the privacy that its plan costs, as one JSON object.

use accounting::rewind::{ReleasedRows, charge_with};
use ledger::{BindingSummary, BranchReleases, JobRecord, Ledger, LedgerError, Opening};
use node::admission::Reservation;
use plan::Plan;
use proto::{CheckpointRecord, JobId, Result, ServiceError};
use release::budget::released_rows;
use serde_json::{Value, json};

use crate::cluster::no_job;
use crate::coordinator::Coordinator;

/// What the ledger knows of a job.
struct Known {
    record: JobRecord,
    bound: BindingSummary,
    checkpoints: Vec<CheckpointRecord>,
    released: Vec<BranchReleases>,
    openings: Vec<Opening>,
    ledger_doubt: Option<String>,
}

impl Known {
    fn read(ledger: &Ledger, job: &JobId) -> Result<Option<Self>, LedgerError> {
        let Some(record) = ledger.job(job)? else { return Ok(None) };
        Ok(Some(Self {
            bound: ledger.binding_summary(job, record.branch)?,
            checkpoints: ledger.checkpoints(job)?,
            released: ledger.charged(job)?,
            openings: ledger.openings(job)?,
            ledger_doubt: ledger.doubt(job)?,
            record,
        }))
    }
}

impl Coordinator {
    /// Returns the report. `ledger_doubt` says why the ledger is known to be a copy, also once adopted, or an old one, whose ε may be too low.
    /// Its cost is that of the plan's whole run on the current branch, together with all rows that
    /// earlier branches released and the job then left. `permit` is the caller's share of its reports at once, held
    /// until the work is done.
    pub async fn report(&self, job: JobId, delta: f64, permit: Option<Reservation>) -> Result<Value> {
        if !(delta > 0.0 && delta < 1.0) {
            return Err(ServiceError::invalid("delta", delta, "strictly between 0 and 1"));
        }
        let name = job.clone();
        let known = self.with_ledger(move |ledger| Known::read(ledger, &name)).await?;
        let Known { record, bound, checkpoints, released, openings, ledger_doubt } =
            known.ok_or_else(|| no_job(&job))?;
        let plan_toml = record.plan_toml.clone();
        let on_branches = released_rows(&released);
        // Sensitivities of long plans take seconds: not on an async thread, and few at once, because binding rows needs
        // the same threads. The turn is held until the work is done, even if the caller disconnects.
        let turn =
            self.answer_limits().accounts.clone().acquire_owned().await.map_err(ServiceError::internal)?;
        let cost = node::process::blocking::run(move || {
            let _held = (permit, turn);
            privacy(&plan_toml, delta, &on_branches)
        });
        let cost = cost.await.map_err(ServiceError::internal)??;
        let doubt = self.cluster().ledger_doubt(&job).map(|doubt| doubt.to_string()).or(ledger_doubt);
        let mut report = json!({
            "ledger_doubt": doubt,
            "openings": openings,
            "job": record.job,
            "state": record.state,
            "mechanism": record.mechanism,
            "plan_digest": hex::encode(record.plan_digest),
            "key_commitment": hex::encode(record.key_commitment),
            "dimension": record.dimension,
            "iterations": record.iterations,
            "branch": record.branch,
            "lineage": record.lineage.rows_and_branches(),
            "noise_id": record.noise_id().to_string(),
            "released": { "branches": released.iter().map(branch).collect::<Vec<_>>() },
            "shards": record.shards,
            "rows_bound": bound.rows_bound,
            "next_row": bound.next_row,
            "bindings_refused": bound.refused,
            "plan_toml": record.plan_toml,
            "checkpoints": checkpoints.iter().map(|checkpoint| json!({
                "id": checkpoint.id,
                "branch": checkpoint.branch,
                "next_row": checkpoint.next_row,
                "bytes": checkpoint.bytes,
                "pieces": checkpoint.pieces.len(),
            })).collect::<Vec<_>>(),
        });
        if let (Value::Object(report), Value::Object(cost)) = (&mut report, cost) {
            report.extend(cost);
        }
        Ok(report)
    }
}

/// Returns the rows released on a branch. Rows bound count as released, whether or not a byte of them left, as they do
/// for the accountant (`accounting::rewind::ReleasedRows`), and so do those that another copy of an adopted ledger may have
/// released.
fn branch(releases: &BranchReleases) -> Value {
    let released: Vec<_> = releases.released.iter().map(|rows| [rows.start, rows.end]).collect();
    json!({ "branch": releases.branch, "parent": releases.parent, "from_row": releases.from_row, "released": released })
}

/// Returns the cost of a plan's whole run and of the rows that abandoned branches released. Without noise there is no
/// guarantee, and epsilon and rho are null.
fn privacy(plan_toml: &str, delta: f64, released: &ReleasedRows) -> Result<Value> {
    let plan = Plan::from_toml_str(plan_toml).map_err(ServiceError::internal)?;
    let participation = plan.participation();
    let sensitivity_of = |rows| plan.accounted_sensitivity_of(rows).map_err(anyhow::Error::from);
    let charge = charge_with(plan.iterations(), released, sensitivity_of).map_err(ServiceError::internal)?;
    let sensitivity = charge.total();
    let mut report = json!({
        "delta": delta,
        "noise_multiplier": plan.noise_multiplier(),
        "clip_norm": plan.clip_norm(),
        "participation": { "min_sep": participation.min_sep, "max_participations": participation.max_participations },
        "sensitivity": sensitivity.value,
        "sensitivity_exact": sensitivity.exact,
        "sensitivity_planned": charge.planned.value,
        "abandoned": charge.abandoned,
        "epsilon": null,
        "rho": null,
    });
    let noise = plan.accounted_noise_multiplier();
    if noise > 0.0 {
        let cost = accounting::Report::of_run(sensitivity, noise, plan.failure_probability(), delta);
        let cost = cost.map_err(ServiceError::internal)?;
        report["epsilon"] = json!(cost.epsilon);
        report["rho"] = json!(cost.rho);
    }
    Ok(report)
}
