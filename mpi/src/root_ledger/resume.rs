//! Where the job stands, as the first noise rank's ledger has it: cursors, going on at one, going back.

use ledger::{JobCursor, LedgerError};
use plan::{Layout, Plan};
use proto::{Result, ServiceError, model::OpenBranch};

use super::keeper::Keeper;

/// Where a job goes on.
pub struct Resumed {
    pub next_row: u64,
    /// On another branch than the cursor, with fresh noise: opened now, or by an earlier call at the same cursor.
    pub opened_branch: bool,
}

impl Keeper {
    pub fn branch(&self) -> u64 {
        self.job.branch
    }

    /// The place before `row`, below 256 bytes. Changes nothing.
    pub fn cursor(&self, row: u64) -> Result<Vec<u8>> {
        Ok(self.ledger.cursor(&self.job.job, self.layout_digest()?, Some(row))?.to_bytes())
    }

    /// By the rule of `CursorState::goes_on`.
    pub fn resume(&mut self, cursor: &[u8], replay: bool) -> Result<Resumed> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let state = self.ledger.check_cursor(&self.job.job, self.layout_digest()?, &cursor)?;
        if !state.goes_on(&cursor, replay) {
            self.open_branch(cursor.next_row, Some(cursor.branch))?;
        }
        Ok(Resumed { next_row: cursor.next_row, opened_branch: self.job.branch != cursor.branch })
    }

    /// Rows from `row` on have fresh noise, on a new branch.
    pub fn rewind(&mut self, row: u64) -> Result<Resumed> {
        self.open_branch(row, None)?;
        Ok(Resumed { next_row: row, opened_branch: true })
    }

    /// What was released, as one JSON object.
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

    /// Of the plan's layout; of the dimension alone where the plan has none.
    fn layout_digest(&self) -> Result<[u8; 32]> {
        let plan = Plan::from_toml_str(&self.job.plan_toml).map_err(ServiceError::internal)?;
        if let Some(layout) = plan.layout() {
            return Ok(layout.digest());
        }
        Ok(Layout::dimension_only(self.job.dimension).map_err(ServiceError::internal)?.digest())
    }
}
