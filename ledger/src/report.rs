//! What a job has released, for whoever states what that costs.

use proto::JobId;
use serde_json::{Value, json};

use crate::{Ledger, LedgerError, Result, rules::branches::BranchReleases};

impl Ledger {
    /// The job with its plan and its branches, as `report::Job::read` takes it. Rows bound count as released, whether or
    /// not a byte of them left. Error: no such job.
    pub fn report(&self, job: &JobId) -> Result<Value> {
        let record =
            self.job(job)?.ok_or_else(|| LedgerError::NotFound { what: "job", name: job.to_string() })?;
        let bound = self.binding_summary(job, record.branch)?;
        let branch = |of: &BranchReleases| {
            let released: Vec<_> = of.released.iter().map(|rows| [rows.start, rows.end]).collect();
            json!({ "branch": of.branch, "parent": of.parent, "from_row": of.from_row, "released": released })
        };
        let branches: Vec<_> = self.released(job)?.iter().map(branch).collect();
        Ok(json!({
            "job": record.job,
            "state": record.state,
            "dimension": record.dimension,
            "key_commitment": hex::encode(record.key_commitment),
            "bindings_refused": bound.refused,
            "plan_digest": hex::encode(record.plan_digest),
            "plan_toml": record.plan_toml,
            "released": { "branches": branches },
        }))
    }
}
