//! Rewinds: branches, and cursors that record where a training job stood.

use ledger::{CursorState, JobCursor};
use node::process::rng;
use proto::{JobId, Result, ServiceError, model::OpenBranch, pb};
use release::branches::{self, Resumption};
use tokio::time::Instant;
use tracing::info;

use crate::cluster::for_release;
use crate::coordinator::Coordinator;
use crate::plan_summary::PlanSummary;

/// Entries in one answer.
pub(super) const MAX_ENTRIES: usize = 256;
/// Bytes of their events together: one event may bind many rows.
pub(super) const MAX_ENTRY_BYTES: usize = 1 << 20;

impl Coordinator {
    /// Opens a branch. Once the ledger has recorded it, nothing more is bound on the branch before, and no worker
    /// serves that after its next heartbeat.
    pub async fn open_branch(&self, request: OpenBranch) -> Result<pb::Job> {
        let job = request.job.clone();
        self.check_tenant(&job).await?;
        // A branch opened on an outdated ledger would hide rows of the branch before that this ledger does not know.
        self.wait_out_grace_period(&job, Instant::now()).await?;
        let _change = self.lock_changes().await;
        self.check_branch_quota(&job, request.expected_branch)?;
        self.check_not_contradicted(&job).await?;
        self.check_charge_known(&job).await?;
        let marks = self.cluster().watermarks_to_check(&job);
        let name = job.clone();
        let nonce = rng::nonce().map_err(ServiceError::internal)?;
        let to_check = for_release(&marks);
        let (opened, bound) = self
            .with_ledger(move |ledger| {
                let opened = branches::open_branch_above(ledger, &request, nonce, &to_check)?;
                let bound = ledger.binding_summary(&name, opened.job.branch)?;
                Ok((opened, bound))
            })
            .await
            .inspect_err(|error| self.stop_if_behind(&job, error))?;
        self.cluster().confirm_watermarks(&marks);
        if opened.newly {
            let lineage = &opened.job.lineage;
            info!(%job, branch = opened.job.branch, from_row = lineage.from_row(), "branch opened");
            self.cluster().branch_opened(opened, bound)?;
            self.trigger_reconcile();
        }
        self.job_message(&job)
    }

    /// Returns entries of a job's chain of events, as many as fit in one answer.
    pub async fn entries(&self, request: pb::ListEntriesRequest) -> Result<pb::ListEntriesResponse> {
        let job = JobId::new(request.job)?;
        let most = match request.most {
            0 => MAX_ENTRIES,
            most => MAX_ENTRIES.min(most as usize),
        };
        let entries = self
            .with_ledger(move |ledger| ledger.entries(&job, request.first, most, MAX_ENTRY_BYTES))
            .await?;
        Ok(pb::ListEntriesResponse { entries: entries.into_iter().map(entry_message).collect() })
    }

    /// Returns the newest hash of a job's chain of events.
    pub async fn head(&self, job: JobId) -> Result<pb::Head> {
        let name = job.to_string();
        let head = self.with_ledger(move |ledger| ledger.head(&job)).await?;
        Ok(pb::Head { job: name, entries: head.entries, hash: head.hash.to_vec() })
    }

    /// Returns a cursor at `next_row`, or where the job stands.
    pub async fn job_cursor(&self, job: JobId, next_row: Option<u64>) -> Result<pb::Cursor> {
        let layout = self.layout_digest(&job).await?;
        let cursor = self.with_ledger(move |ledger| ledger.cursor(&job, layout, next_row)).await?;
        Ok(pb::Cursor { cursor: cursor.to_bytes() })
    }

    /// Compares a cursor with the ledger.
    pub async fn check_cursor(&self, job: JobId, cursor: &[u8]) -> Result<pb::CursorCheck> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let state = self.cursor_state(&job, &cursor).await?;
        Ok(pb::CursorCheck {
            branch: cursor.branch,
            next_row: cursor.next_row,
            current_branch: state.current_branch,
            rows_beyond: state.rows_beyond,
            replayable: state.replayable,
            continues: state.continues(&cursor),
        })
    }

    /// Resumes a job at a cursor. `replay` says that the rows beyond the cursor are bound again to the same
    /// commitments. The answer says whether the job is on another branch than the cursor, even if an earlier request
    /// opened it, because that costs the same privacy.
    pub async fn resume(&self, job: JobId, cursor: &[u8], replay: bool) -> Result<pb::Resumed> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let layout = self.layout_digest(&job).await?;
        let name = job.clone();
        let next_row = cursor.next_row;
        let branch_before = cursor.branch;
        let resumption = self
            .with_ledger(move |ledger| branches::resumption(ledger, &name, layout, &cursor, replay))
            .await?;
        let job = match resumption {
            Resumption::Continue { .. } => self.job_message(&job)?,
            Resumption::NewBranch(request) => self.open_branch(request).await?,
        };
        let opened_branch = job.branch != branch_before;
        Ok(pb::Resumed { job: Some(job), next_row, opened_branch })
    }

    async fn cursor_state(&self, job: &JobId, cursor: &JobCursor) -> Result<CursorState> {
        let layout = self.layout_digest(job).await?;
        let job = job.clone();
        let cursor = cursor.clone();
        self.with_ledger(move |ledger| ledger.check_cursor(&job, layout, &cursor)).await
    }

    async fn layout_digest(&self, job: &JobId) -> Result<[u8; 32]> {
        let (known, plan_toml, dimension) = {
            let cluster = self.cluster();
            let view = cluster.job(job)?;
            let known = view.summary.as_ref().map(|summary| summary.layout_digest);
            let plan_toml = if known.is_none() { view.record.plan_toml.clone() } else { String::new() };
            (known, plan_toml, view.record.dimension)
        };
        match known {
            Some(digest) => Ok(digest),
            None => Ok(PlanSummary::read(plan_toml, dimension).await?.layout_digest),
        }
    }
}

/// Returns an entry of a chain as clients see it.
pub(super) fn entry_message(entry: ledger::Entry) -> pb::Entry {
    let ledger::Entry { index, previous, hash, event } = entry;
    pb::Entry { index, previous: previous.to_vec(), hash: hash.to_vec(), event }
}
