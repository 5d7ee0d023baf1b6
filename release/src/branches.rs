//! Branches: a training job that returns to an earlier row continues with fresh noise, on a new branch, unless it
//! repeats exactly what it did before.

use ledger::{JobCursor, Ledger, LedgerError, OpenedBranch};
use proto::{JobId, Nonce, model::OpenBranch};

use crate::budget;
use crate::watermarks::{self, UnknownJob, Watermark};

/// The way in which a job continues at a cursor.
#[derive(Clone, Debug)]
pub enum Resumption {
    /// The job continues on this branch, its current one.
    Continue {
        /// The number of the branch.
        branch: u64,
    },
    /// The job needs a new branch first: rows beyond the cursor were released under commitments that may not recur.
    NewBranch(OpenBranch),
}

/// A job that continues at a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The branch that the job continues on.
    pub branch: u64,
    /// The next row of the training job.
    pub next_row: u64,
    /// Whether that branch is another than the cursor's: opened now, or by an earlier call with the same cursor.
    pub opened_branch: bool,
}

/// Decides how the job continues at `cursor`. Writes nothing.
///
/// `replay` promises that the rows beyond the cursor will be requested again under the same exact commitments.
///
/// # Errors
/// [`LedgerError::CursorMismatch`] for the cursor of another job, plan or layout, [`LedgerError::Behind`] where the
/// ledger knows less than the cursor, [`LedgerError::JobState`] unless the job is running.
pub fn resumption(
    ledger: &Ledger,
    job: &JobId,
    layout_digest: [u8; 32],
    cursor: &JobCursor,
    replay: bool,
) -> Result<Resumption, LedgerError> {
    let state = ledger.check_cursor(job, layout_digest, cursor)?;
    if state.can_continue(cursor, replay) {
        return Ok(Resumption::Continue { branch: state.current_branch });
    }
    Ok(Resumption::NewBranch(OpenBranch {
        job: job.clone(),
        from_row: cursor.next_row,
        expected_branch: state.current_branch,
        parent: Some(cursor.branch),
    }))
}

/// Continues the job at `cursor`, on a new branch, under `nonce`, where [`resumption`] demands one.
///
/// For engines that have the ledger to themselves. A service opens the branch by [`open_branch_above`] under its own
/// locks.
///
/// # Errors
/// Those of [`resumption`] and [`Ledger::open_branch`].
pub fn resume(
    ledger: &Ledger,
    job: &JobId,
    layout_digest: [u8; 32],
    cursor: &JobCursor,
    replay: bool,
    nonce: Nonce,
) -> Result<Resumed, LedgerError> {
    let branch = match resumption(ledger, job, layout_digest, cursor, replay)? {
        Resumption::Continue { branch } => branch,
        Resumption::NewBranch(request) => budget::open_branch(ledger, &request, nonce)?.job.branch,
    };
    Ok(Resumed { branch, next_row: cursor.next_row, opened_branch: branch != cursor.branch })
}

/// Rewinds the job: opens a branch of the current one, `expected_branch`, at `from_row`, under `nonce`.
///
/// # Errors
/// [`LedgerError::BranchSuperseded`] where the job is on another branch already, and those of
/// [`Ledger::open_branch`].
pub fn rewind(
    ledger: &Ledger,
    job: &JobId,
    from_row: u64,
    expected_branch: u64,
    nonce: Nonce,
) -> Result<OpenedBranch, LedgerError> {
    let request = OpenBranch { job: job.clone(), from_row, expected_branch, parent: None };
    budget::open_branch(ledger, &request, nonce)
}

/// Opens a branch under `nonce` unless a watermark of the job is above what the ledger knows: a branch opened on an old copy would
/// hide for good what the copy does not know of the branch before.
///
/// # Errors
/// [`LedgerError::Behind`] for such a watermark, before anything is written; otherwise those of
/// [`Ledger::open_branch`].
pub fn open_branch_above<W: std::fmt::Display>(
    ledger: &Ledger,
    request: &OpenBranch,
    nonce: Nonce,
    watermarks: &[Watermark<W>],
) -> Result<OpenedBranch, LedgerError> {
    watermarks::check_not_stale(ledger, &request.job, watermarks, UnknownJob::Skip)?;
    budget::open_branch(ledger, request, nonce)
}
