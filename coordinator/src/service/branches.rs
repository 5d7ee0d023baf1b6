//! Going back: branches, and cursors that say where a training job stood.

use ledger::{CursorState, JobCursor};
use proto::{JobId, Result, model::OpenBranch, pb};
use tracing::info;

use crate::coordinator::Coordinator;
use crate::plan_facts::PlanFacts;
use crate::release::not_behind;

/// Entries in one answer, and bytes of their events: each may bind many rows.
const MOST_ENTRIES: usize = 256;
const MOST_ENTRY_BYTES: usize = 1 << 20;

impl Coordinator {
    /// From the moment the ledger has it, nothing is bound on the branch before, and no worker serves it once it has
    /// heard.
    pub async fn open_branch(&self, request: OpenBranch) -> Result<pb::Job> {
        let job = request.job.clone();
        // A branch of an old ledger would hide for good what that does not know of the branch before.
        self.outwait_grace_period(&job).await;
        let _change = self.changes.lock().await;
        let marks = self.cluster().marks_to_check(&job);
        let asked = job.clone();
        let told = marks.clone();
        let (opened, bound) = self
            .with_ledger(move |ledger| {
                not_behind(ledger, &told)?;
                let opened = ledger.open_branch(&request)?;
                let bound = ledger.binding_summary(&asked, opened.job.branch)?;
                Ok((opened, bound))
            })
            .await?;
        self.cluster().marks_agree(&marks);
        if opened.newly {
            let lineage = &opened.job.lineage;
            info!(%job, branch = opened.job.branch, from_row = lineage.from_row(), "branch opened");
            self.cluster().branch_opened(opened, bound)?;
            self.nudge.notify_one();
        }
        self.job_message(&job)
    }

    pub async fn entries(&self, request: pb::ListEntriesRequest) -> Result<pb::ListEntriesResponse> {
        let job = JobId::new(request.job)?;
        let most = match request.most {
            0 => MOST_ENTRIES,
            most => MOST_ENTRIES.min(most as usize),
        };
        let entries = self
            .with_ledger(move |ledger| ledger.entries(&job, request.first, most, MOST_ENTRY_BYTES))
            .await?;
        let entry = |entry: ledger::Entry| pb::Entry {
            index: entry.index,
            previous: entry.previous.to_vec(),
            hash: entry.hash.to_vec(),
            event: entry.event,
        };
        Ok(pb::ListEntriesResponse { entries: entries.into_iter().map(entry).collect() })
    }

    pub async fn head(&self, job: JobId) -> Result<pb::Head> {
        let name = job.to_string();
        let head = self.with_ledger(move |ledger| ledger.head(&job)).await?;
        Ok(pb::Head { job: name, entries: head.entries, hash: head.hash.to_vec() })
    }

    pub async fn job_cursor(&self, job: JobId, next_row: Option<u64>) -> Result<pb::Cursor> {
        let layout = self.layout_digest(&job).await?;
        let cursor = self.with_ledger(move |ledger| ledger.cursor(&job, layout, next_row)).await?;
        Ok(pb::Cursor { cursor: cursor.to_bytes() })
    }

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

    /// `replay`: the rows beyond the cursor come again, under the same exact commitments. The answer says whether the job is
    /// on another branch than the cursor, also where an earlier request of the same kind has opened it: it costs the same.
    pub async fn resume(&self, job: JobId, cursor: &[u8], replay: bool) -> Result<pb::Resumed> {
        let cursor = JobCursor::from_bytes(cursor)?;
        let state = self.cursor_state(&job, &cursor).await?;
        let job = if state.can_continue(&cursor, replay) {
            self.job_message(&job)?
        } else {
            let from_row = cursor.next_row;
            let parent = Some(cursor.branch);
            let request = OpenBranch { job, from_row, expected_branch: state.current_branch, parent };
            self.open_branch(request).await?
        };
        let opened_branch = job.branch != cursor.branch;
        Ok(pb::Resumed { job: Some(job), next_row: cursor.next_row, opened_branch })
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
            let known = view.facts.as_ref().map(|facts| facts.layout_digest);
            let plan_toml = if known.is_none() { view.record.plan_toml.clone() } else { String::new() };
            (known, plan_toml, view.record.dimension)
        };
        match known {
            Some(digest) => Ok(digest),
            None => Ok(PlanFacts::read(plan_toml, dimension).await?.layout_digest),
        }
    }
}
