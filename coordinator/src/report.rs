//! What a job has released and what privacy that costs, as one JSON object.

use node::admission::Reservation;
use plan::Plan;
use proto::{JobId, Result, ServiceError};
use serde_json::{Value, json};

use crate::cluster::no_job;
use crate::coordinator::Coordinator;

impl Coordinator {
    /// The cost is that of the plan's whole run, whatever part of it has been released. `place`: what the caller has of
    /// its reports at once.
    pub async fn report(&self, job: JobId, delta: f64, place: Option<Reservation>) -> Result<Value> {
        if !(delta > 0.0 && delta < 1.0) {
            return Err(ServiceError::invalid("delta", delta, "strictly between 0 and 1"));
        }
        let asked = job.clone();
        let (record, bound, checkpoints, released) = self
            .with_ledger(move |ledger| {
                let Some(record) = ledger.job(&asked)? else { return Ok(None) };
                let bound = ledger.binding_summary(&asked, record.branch)?;
                let checkpoints = ledger.checkpoints(&asked)?;
                let released = ledger.released(&asked)?;
                Ok(Some((record, bound, checkpoints, released)))
            })
            .await?
            .ok_or_else(|| no_job(&job))?;
        let plan_toml = record.plan_toml.clone();
        // Sensitivities of long plans take seconds: not on an async thread, and few at once, since what binds rows waits
        // for the same threads. The turn is held for as long as the work takes, also where its caller has left.
        let turn = self.accounts.clone().acquire_owned().await.map_err(ServiceError::internal)?;
        let cost = node::process::blocking::run(move || {
            let _held = (place, turn);
            privacy(&plan_toml, delta)
        });
        let cost = cost.await.map_err(ServiceError::internal)??;
        let mut report = json!({
            "job": record.job,
            "state": record.state,
            "mechanism": record.mechanism,
            "plan_digest": hex::encode(record.plan_digest),
            "key_commitment": hex::encode(record.key_commitment),
            "dimension": record.dimension,
            "iterations": record.iterations,
            "branch": record.branch,
            "lineage": record.lineage.to_string(),
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

/// Rows bound count as released, whether or not a byte of them left: what the accountant charges for
/// (`accounting::rewind::Released`).
fn branch(of: &ledger::BranchReleases) -> Value {
    let released: Vec<_> = of.released.iter().map(|rows| [rows.start, rows.end]).collect();
    json!({ "branch": of.branch, "parent": of.parent, "from_row": of.from_row, "released": released })
}

/// Without noise there is no guarantee to state: epsilon and rho are null then.
fn privacy(plan_toml: &str, delta: f64) -> Result<Value> {
    let plan = Plan::from_toml_str(plan_toml).map_err(ServiceError::internal)?;
    let participation = plan.participation();
    let mut report = json!({
        "delta": delta,
        "noise_multiplier": plan.noise_multiplier(),
        "clip_norm": plan.clip_norm(),
        "participation": { "min_sep": participation.min_sep, "max_participations": participation.max_participations },
        "epsilon": null, "rho": null, "sensitivity": null, "sensitivity_exact": null,
    });
    let sensitivity = plan.accounted_sensitivity().map_err(ServiceError::internal)?;
    report["sensitivity"] = json!(sensitivity.value);
    report["sensitivity_exact"] = json!(sensitivity.exact);
    let noise = plan.accounted_noise_multiplier();
    if noise > 0.0 {
        let cost = accounting::Report::at_delta(sensitivity, noise, delta).map_err(ServiceError::internal)?;
        report["epsilon"] = json!(cost.epsilon);
        report["rho"] = json!(cost.rho);
    }
    Ok(report)
}
