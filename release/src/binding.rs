//! Binding: a row leaves only after the ledger has it, durably, under one commitment.

use ledger::{BindOutcome, Ledger, LedgerError};
use proto::{Commitment, JobId, RowRange};

use crate::watermarks::{self, UnknownJob, Watermark};

/// Binds `rows` of a branch, one commitment each, durably: all of them or none.
///
/// For engines whose watermarks are checked once, when they open the ledger. A service that learns of watermarks while
/// it runs uses [`bind_above`].
///
/// # Errors
/// [`LedgerError::AlreadyBound`] where a row is bound to another commitment, [`LedgerError::BranchSuperseded`] for a
/// branch that was left, [`LedgerError::RowBeyondIterations`] and those of the store.
pub fn bind(
    ledger: &Ledger,
    job: &JobId,
    branch: u64,
    rows: RowRange,
    commitments: &[Commitment],
) -> Result<BindOutcome, LedgerError> {
    ledger.bind(job, branch, rows, commitments)
}

/// Binds as [`bind`] does, unless a watermark of the job is above what the ledger knows.
///
/// # Errors
/// [`LedgerError::Behind`] for such a watermark, before anything is bound; otherwise those of [`bind`].
pub fn bind_above<W: std::fmt::Display>(
    ledger: &Ledger,
    job: &JobId,
    branch: u64,
    rows: RowRange,
    commitments: &[Commitment],
    watermarks: &[Watermark<W>],
) -> Result<BindOutcome, LedgerError> {
    // The ledger itself refuses to bind a row of a job that it does not know.
    watermarks::check_not_stale(ledger, job, watermarks, UnknownJob::Skip)?;
    bind(ledger, job, branch, rows, commitments)
}
