//! A job as its coordinator reports it.

use accounting::rewind::ReleasedRows;
use plan::Plan;
use serde::{Deserialize, Serialize};

use crate::error::{ReportError, Result};

/// Who a job is, beside its plan and what it released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    pub job: String,
    pub state: String,
    pub dimension: u64,
    /// Of the key that all its noise comes from, hexadecimal.
    pub key_commitment: String,
    /// Rows asked for under another commitment than they were bound to, since the coordinator started.
    pub bindings_refused: u64,
}

/// The part of the coordinator's answer that statements need; it may say more.
#[derive(Deserialize)]
struct Answer {
    job: String,
    state: String,
    dimension: u64,
    key_commitment: String,
    #[serde(default)]
    bindings_refused: u64,
    plan_digest: String,
    plan_toml: String,
    released: ReleasedRows,
}

impl Job {
    /// Reads the JSON of `GetReport`: the job, its plan and what it released.
    ///
    /// # Errors
    /// [`ReportError::Job`] where a field is missing or the plan is not the one that the job was made with.
    pub fn read(json: &str) -> Result<(Self, Plan, ReleasedRows)> {
        let answer: Answer =
            serde_json::from_str(json).map_err(|error| ReportError::Job(error.to_string()))?;
        let plan = Plan::from_toml_str(&answer.plan_toml)?;
        let digest = hex::encode(plan.digest());
        if digest != answer.plan_digest {
            let text = format!("plan_digest is {}; its plan_toml has {digest}", answer.plan_digest);
            return Err(ReportError::Job(text));
        }
        let Answer { job, state, dimension, key_commitment, bindings_refused, released, .. } = answer;
        Ok((Self { job, state, dimension, key_commitment, bindings_refused }, plan, released))
    }
}
