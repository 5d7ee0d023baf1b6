//! A job as its coordinator reports it.

use accounting::rewind::ReleasedRows;
use plan::Plan;
use serde::{Deserialize, Serialize};

use crate::error::{ReportError, Result};
use crate::opening::Opening;

/// The identity of a job, beside its plan and its released rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    /// The name of the job.
    pub job: String,
    /// The state that the coordinator reports, such as `running`.
    pub state: String,
    /// The dimension of its parameter vector.
    pub dimension: u64,
    /// The commitment to the key that all its noise comes from, hexadecimal.
    pub key_commitment: String,
    /// The number of rows requested under another commitment than they are bound to, since the coordinator started.
    pub bindings_refused: u64,
    /// Why the ledger is taken for a copy or an old one, which may lack released rows: then the figures may be too low.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger_doubt: Option<String>,
    /// The sweep that the job is a run of: then no figure of the job is that of what is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepCharge>,
    /// Who created the job, opened its branches and adopted its ledger, in order.
    pub openings: Vec<Opening>,
}

/// The sweep of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepCharge {
    /// The name of the sweep.
    pub sweep: String,
    /// The event that the data set is charged for in place of all runs, as JSON.
    pub charge: String,
}

/// The part of the coordinator's answer that statements need; further fields are ignored.
#[derive(Deserialize)]
struct Answer {
    job: String,
    state: String,
    dimension: u64,
    key_commitment: String,
    #[serde(default)]
    bindings_refused: u64,
    #[serde(default)]
    ledger_doubt: Option<String>,
    #[serde(default)]
    sweep: Option<SweepCharge>,
    #[serde(default)]
    openings: Vec<Opening>,
    plan_digest: String,
    plan_toml: String,
    released: ReleasedRows,
}

impl Job {
    /// Reads the JSON of `GetReport`: the job, its plan and its released rows.
    ///
    /// # Errors
    /// [`ReportError::Job`] where a field is missing or the plan is not the one that the job was created with.
    pub fn read(json: &str) -> Result<(Self, Plan, ReleasedRows)> {
        let answer: Answer =
            serde_json::from_str(json).map_err(|error| ReportError::Job(error.to_string()))?;
        let plan = Plan::from_toml_str(&answer.plan_toml)?;
        let digest = hex::encode(plan.digest());
        if digest != answer.plan_digest {
            let text = format!("plan_digest is {}; its plan_toml has {digest}", answer.plan_digest);
            return Err(ReportError::Job(text));
        }
        let Answer {
            job,
            state,
            dimension,
            key_commitment,
            bindings_refused,
            ledger_doubt,
            sweep,
            openings,
            released,
            ..
        } = answer;
        let job =
            Self { job, state, dimension, key_commitment, bindings_refused, ledger_doubt, sweep, openings };
        Ok((job, plan, released))
    }
}
