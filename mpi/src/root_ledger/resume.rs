//! The job's position, as the first noise rank's ledger has it: cursors, resuming at one, and rewinding.

use ledger::{JobCursor, LedgerError};
use plan::{Layout, Plan};
use proto::{Result, ServiceError, model::OpenBranch};

use super::RootLedger;

/// The row at which a job continues.
pub struct Resumption {
    pub next_row: u64,
    /// True where the job is on another branch than the cursor, with fresh noise: opened now, or by an earlier call at the
    /// same cursor.
    pub opened_branch: bool,
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

    /// Continues at a cursor, by the rule of `CursorState::goes_on`: on its branch, or on a new one.
    pub fn resume(&mut self, cursor: &[u8], replay: bool) -> Result<Resumption> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let state = self.ledger.check_cursor(&self.job.job, self.layout_digest()?, &cursor)?;
        if !state.goes_on(&cursor, replay) {
            self.open_branch(cursor.next_row, Some(cursor.branch))?;
        }
        Ok(Resumption { next_row: cursor.next_row, opened_branch: self.job.branch != cursor.branch })
    }

    /// Opens a branch with fresh noise from `row` on.
    pub fn rewind(&mut self, row: u64) -> Result<Resumption> {
        self.open_branch(row, None)?;
        Ok(Resumption { next_row: row, opened_branch: true })
    }

    /// Returns what was released, as one JSON object.
    pub fn report(&self) -> Result<String> {
        Ok(self.ledger.report(&self.job.job)?.to_string())
    }

    fn open_branch(&mut self, from_row: u64, parent: Option<u64>) -> Result<(), LedgerError> {
        let job = self.job.job.clone();
        let request = OpenBranch { job, from_row, expected_branch: self.job.branch, parent };
        self.job = self.ledger.open_branch(&request)?.job;
        tracing::info!(job = %self.job.job, branch = self.job.branch, from_row, "branch opened");
        Ok(())
    }

    /// Returns the digest of the plan's layout, or of the dimension alone where the plan has none.
    fn layout_digest(&self) -> Result<[u8; 32]> {
        let plan = Plan::from_toml_str(&self.job.plan_toml).map_err(ServiceError::internal)?;
        if let Some(layout) = plan.layout() {
            return Ok(layout.digest());
        }
        Ok(Layout::dimension_only(self.job.dimension).map_err(ServiceError::internal)?.digest())
    }
}
