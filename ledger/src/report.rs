//! Reports of what a job has released, for a statement of its privacy cost.

use proto::JobId;
use serde_json::{Value, json};

use crate::{Ledger, LedgerError, Result, rules::branches::BranchReleases};

impl Ledger {
    /// Returns the job with its plan and branches as JSON, in the form that `report::Job::read` takes. A bound row
    /// counts as released, whether or not a byte of it was sent; so does one that another copy of the ledger may have
    /// released ([`Ledger::charged`]). A run of a sweep names the sweep and its charge, which is what selecting it costs.
    /// Error: no such job.
    pub fn report(&self, job: &JobId) -> Result<Value> {
        let record =
            self.job(job)?.ok_or_else(|| LedgerError::NotFound { what: "job", name: job.to_string() })?;
        let bound = self.binding_summary(job, record.branch)?;
        let sweep = self.charge(job)?.and_then(|charge| charge.sweep);
        let sweep = sweep.map(|name| self.sweep(&name)).transpose()?;
        let sweep = sweep.map(|sweep| json!({ "sweep": sweep.sweep, "charge": sweep.charge }));
        let branch = |releases: &BranchReleases| {
            let released: Vec<_> = releases.released.iter().map(|rows| [rows.start, rows.end]).collect();
            json!({ "branch": releases.branch, "parent": releases.parent, "from_row": releases.from_row, "released": released })
        };
        let branches: Vec<_> = self.charged(job)?.iter().map(branch).collect();
        Ok(json!({
            "job": record.job,
            "ledger_doubt": self.doubt(job)?,
            "openings": self.openings(job)?,
            "sweep": sweep,
            "state": record.state,
            "dimension": record.dimension,
            "noise_id": record.noise_id().to_string(),
            "key_commitment": hex::encode(record.key_commitment),
            "bindings_refused": bound.refused,
            "plan_digest": hex::encode(record.plan_digest),
            "plan_toml": record.plan_toml,
            "released": { "branches": branches },
        }))
    }
}
