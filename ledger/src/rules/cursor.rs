//! Cursors: a job's position, small enough for a training checkpoint. A cursor names plan and layout, branch and row,
//! and the head of the ledger's chain, so that resuming with it reveals a ledger that was rolled back since.

use proto::{JobId, Nonce, ServiceError};
use sha2::{Digest, Sha256};

use crate::{
    Head, JobRecord, JobState, Ledger, LedgerError, Result, chain,
    error::Fail,
    tables::{
        BINDINGS, BRANCHES, CURSORS, ENTRIES, JOBS, META, META_EPOCH, branch_cursor::cursor_of,
        branches_table::OpenedFrom, jobs_table,
    },
};

use super::branches::{bound_in, lineage_of};

/// The version of the encoding.
const VERSION: u8 = 2;

/// A job's position, for a training checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCursor {
    /// The job's nonce: a job of the same name in another ledger has another.
    pub job_nonce: Nonce,
    /// Digest of the job's plan.
    pub plan_digest: [u8; 32],
    /// Digest of the layout of the vector.
    pub layout_digest: [u8; 32],
    /// The job.
    pub job: JobId,
    /// The branch that was current.
    pub branch: u64,
    /// The next row of the training job.
    pub next_row: u64,
    /// The epoch of the coordinator that issued the cursor.
    pub coordinator_epoch: u64,
    /// The end of the job's chain at that time.
    pub head: Head,
}

/// A job's state, compared with one of its cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorState {
    /// The branch that is current now.
    pub current_branch: u64,
    /// The number of rows bound at or after the cursor's next row, on its branch or on those that it has its earlier
    /// rows from.
    pub rows_beyond: u64,
    /// True where all of those are bound to exact commitments.
    pub replayable: bool,
    /// The current branch was opened at this very cursor, and nothing is bound on it.
    pub resumed_already: bool,
}

impl CursorState {
    /// Returns whether the job stands exactly at the cursor.
    pub fn continues(&self, cursor: &JobCursor) -> bool {
        self.current_branch == cursor.branch && self.rows_beyond == 0
    }

    /// Returns whether the job can continue at the cursor without a new branch. With `replay` it also can where all
    /// rows beyond are bound to exact commitments and will be bound to the same ones again.
    pub fn can_continue(&self, cursor: &JobCursor, replay: bool) -> bool {
        let replays = replay && self.replayable && self.current_branch == cursor.branch;
        self.continues(cursor) || replays || self.resumed_already
    }
}

impl JobCursor {
    /// Encodes the cursor in fewer than 256 bytes: version, fields, the first 8 bytes of a SHA-256 of both.
    pub fn to_bytes(&self) -> Vec<u8> {
        let job = self.job.as_str().as_bytes();
        let mut bytes = vec![VERSION];
        bytes.extend(self.job_nonce.as_bytes());
        bytes.extend(self.plan_digest);
        bytes.extend(self.layout_digest);
        bytes.push(job.len() as u8);
        bytes.extend(job);
        for number in [self.branch, self.next_row, self.coordinator_epoch, self.head.entries] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.head.hash);
        let sum = Sha256::digest(&bytes);
        bytes.extend(&sum[..8]);
        bytes
    }

    /// Decodes a cursor. Errors: a newer version, a wrong length or checksum.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ServiceError> {
        let refused = |value: &str| {
            ServiceError::invalid(
                "cursor",
                value,
                "a cursor as it was issued, whole and unchanged, of version 2",
            )
        };
        match bytes.first() {
            None => return Err(refused("empty")),
            Some(&VERSION) => {}
            Some(version) => return Err(refused(&format!("of version {version}"))),
        }
        let (body, sum) =
            bytes.split_at_checked(bytes.len().saturating_sub(8)).ok_or_else(|| refused("cut"))?;
        if Sha256::digest(body)[..8] != *sum {
            return Err(refused("damaged: its checksum is wrong"));
        }
        Self::parse(&body[1..]).ok_or_else(|| refused("of another length"))
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (job_nonce, rest) = body.split_first_chunk::<32>()?;
        let (plan_digest, rest) = rest.split_first_chunk::<32>()?;
        let (layout_digest, rest) = rest.split_first_chunk::<32>()?;
        let (length, rest) = rest.split_first()?;
        let (job, rest) = rest.split_at_checked(usize::from(*length))?;
        let (numbers, hash) = rest.split_first_chunk::<32>()?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let [branch, next_row, coordinator_epoch, entries] =
            [0, 1, 2, 3].map(|at| u64::from_le_bytes(numbers[at]));
        Some(Self {
            job_nonce: Nonce::from_bytes(*job_nonce),
            plan_digest: *plan_digest,
            layout_digest: *layout_digest,
            job: JobId::new(std::str::from_utf8(job).ok()?).ok()?,
            branch,
            next_row,
            coordinator_epoch,
            head: Head { entries, hash: hash.try_into().ok()? },
        })
    }
}

impl Ledger {
    /// Returns a cursor of the job's present position. `next_row` is the training job's own next row, at most the
    /// ledger's; `None` takes the ledger's.
    pub fn cursor(&self, job: &JobId, layout_digest: [u8; 32], next_row: Option<u64>) -> Result<JobCursor> {
        let head = self.head(job)?;
        self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            let bound = cursor_of(&transaction.open_table(CURSORS)?, job, record.branch)?;
            let last = bound.next_row.max(record.lineage.from_row());
            let next_row = next_row.unwrap_or(last);
            if next_row > last {
                let allowed = format!("0 to {last}, the ledger's next row");
                return Err(LedgerError::invalid("next_row", next_row, allowed).into());
            }
            let epoch = transaction.open_table(META)?.get(META_EPOCH)?.map_or(0, |epoch| epoch.value());
            Ok(JobCursor {
                job_nonce: record.nonce,
                plan_digest: record.plan_digest,
                layout_digest,
                job: job.clone(),
                branch: record.branch,
                next_row,
                coordinator_epoch: epoch,
                head,
            })
        })
    }

    /// Checks that the cursor is this job's, and compares it with the job's present state. Changes nothing.
    /// `layout_digest` is the job's.
    ///
    /// # Errors
    ///
    /// [`LedgerError::CursorMismatch`], or [`LedgerError::Behind`] where the ledger lacks what the cursor has seen.
    pub fn check_cursor(
        &self,
        job: &JobId,
        layout_digest: [u8; 32],
        cursor: &JobCursor,
    ) -> Result<CursorState> {
        self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            same_job(&record, layout_digest, cursor)?;
            if record.state != JobState::Running {
                return Err(record.wrong_state("running, to be resumed").into());
            }
            let entries = transaction.open_table(ENTRIES)?;
            let known = match cursor.head.entries.checked_sub(1) {
                Some(last) => chain::entries::hash_at(&entries, job.as_str(), last)?,
                None => Some(Head::empty(job.as_str()).hash),
            };
            let branches = transaction.open_table(BRANCHES)?;
            let cursors = transaction.open_table(CURSORS)?;
            if known != Some(cursor.head.hash) || cursor.branch > record.branch {
                return Err(behind(&record, cursor).into());
            }
            let lineage = lineage_of(&branches, &record, cursor.branch)?;
            let next_row = cursor_of(&cursors, job, cursor.branch)?.next_row.max(lineage.from_row());
            if cursor.next_row > next_row {
                return Err(behind(&record, cursor).into());
            }
            let beyond = cursor.next_row..u64::MAX;
            let (rows_beyond, replayable) =
                bound_in(&transaction.open_table(BINDINGS)?, job, cursor.branch, beyond)?;
            // Rows that the branch has from earlier branches are bound there.
            let before = lineage.from_row().saturating_sub(cursor.next_row);
            let rows_beyond = rows_beyond + before;
            let replayable = replayable && before == 0;
            let opened = branches.get((job.as_str(), record.branch))?;
            let opened = opened.map(|found| OpenedFrom::from_stored(found.value()));
            let untouched = cursor_of(&cursors, job, record.branch)?.rows_bound == 0;
            Ok(CursorState {
                current_branch: record.branch,
                rows_beyond,
                replayable,
                resumed_already: untouched
                    && opened
                        .is_some_and(|from| (from.parent, from.from_row) == (cursor.branch, cursor.next_row)),
            })
        })
    }
}

fn same_job(record: &JobRecord, layout_digest: [u8; 32], cursor: &JobCursor) -> Result<(), Fail> {
    let differs = |what, expected: String, actual: String| {
        if expected == actual { Ok(()) } else { Err(LedgerError::CursorMismatch { what, expected, actual }) }
    };
    differs("job", record.job.to_string(), cursor.job.to_string())?;
    differs("plan", hex::encode(record.plan_digest), hex::encode(cursor.plan_digest))?;
    differs("ledger: its job has the nonce", record.nonce.to_string(), cursor.job_nonce.to_string())?;
    differs("layout", hex::encode(layout_digest), hex::encode(cursor.layout_digest))?;
    Ok(())
}

fn behind(record: &JobRecord, cursor: &JobCursor) -> LedgerError {
    LedgerError::Behind {
        job: record.job.to_string(),
        known: format!("branch {} and another chain of events", record.branch),
        witness: "the cursor".to_owned(),
        seen: format!(
            "branch {}, row {} and {} events that are not there",
            cursor.branch, cursor.next_row, cursor.head.entries
        ),
    }
}
