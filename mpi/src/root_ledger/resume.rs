//! The job's position, as the first noise rank's ledger has it: cursors, resuming at one, and rewinding.

use ledger::JobCursor;
use node::process::rng;
use plan::Plan;
use proto::{Nonce, Result, ServiceError};
use release::branches::{self, Resumed};

use super::RootLedger;

fn nonce() -> Result<Nonce> {
    rng::nonce().map_err(ServiceError::internal)
}

impl RootLedger {
    /// Returns the branch that the job is on.
    pub fn branch(&self) -> u64 {
        self.job.branch
    }

    /// Returns a cursor before `row`, of less than 256 bytes. Changes nothing.
    pub fn cursor(&self, row: u64) -> Result<Vec<u8>> {
        Ok(self.ledger.cursor(&self.job.job, self.layout_digest()?, Some(row))?.to_bytes())
    }

    /// Continues at a cursor: on its branch, or on a new one ([`branches::resumption`]).
    pub fn resume(&mut self, cursor: &[u8], replay: bool) -> Result<Resumed> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let layout = self.layout_digest()?;
        let resumed = branches::resume(&self.ledger, &self.job.job, layout, &cursor, replay, nonce()?)?;
        if resumed.branch != self.job.branch {
            self.reload()?;
            self.log_branch(cursor.next_row);
        }
        Ok(resumed)
    }

    /// Opens a branch with fresh noise from `row` on.
    pub fn rewind(&mut self, row: u64) -> Result<Resumed> {
        self.job = branches::rewind(&self.ledger, &self.job.job, row, self.job.branch, nonce()?)?.job;
        self.log_branch(row);
        Ok(Resumed { branch: self.job.branch, next_row: row, opened_branch: true })
    }

    /// Returns what was released, as one JSON object.
    pub fn report(&self) -> Result<String> {
        Ok(self.ledger.report(&self.job.job)?.to_string())
    }

    fn reload(&mut self) -> Result<()> {
        let missing = || ServiceError::NotFound { what: "job".into(), name: self.job.job.to_string() };
        self.job = self.ledger.job(&self.job.job)?.ok_or_else(missing)?;
        Ok(())
    }

    fn log_branch(&self, from_row: u64) {
        tracing::info!(job = %self.job.job, branch = self.job.branch, from_row, "branch opened");
    }

    fn layout_digest(&self) -> Result<[u8; 32]> {
        let plan = Plan::from_toml_str(&self.job.plan_toml).map_err(ServiceError::internal)?;
        release::job::layout_digest(&plan, self.job.dimension)
    }
}
