//! Watermarks: how far each branch was released, as workers and ranks remember it on their own disks. A ledger that
//! knows less is an old copy, and releases nothing.

use std::fmt::Display;

use ledger::{Ledger, LedgerError};
use proto::JobId;

/// The highest release that one witness remembers of one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark<W> {
    /// The worker or rank that remembers it, named in the error.
    pub witness: W,
    /// The branch.
    pub branch: u64,
    /// One more than the highest row of the branch that was released; 0 where only the branch is known.
    pub next_row: u64,
}

/// The answer to a watermark of a job that the ledger does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownJob {
    /// Passes. For operations that the ledger itself refuses for a job it does not have: binding and branching.
    Skip,
    /// Refuses every watermark but that of branch 0 with no row. For operations that would create the job anew.
    Refuse,
}

/// Checks that the ledger knows all that the watermarks of `job` say. Writes nothing.
///
/// # Errors
/// [`LedgerError::Behind`] for the first watermark of a branch that the ledger does not know, or of a row beyond those
/// that it has bound on that branch. A rewind takes back nothing that was released before it, so each watermark is
/// compared with its own branch.
pub fn check_not_stale<W: Display>(
    ledger: &Ledger,
    job: &JobId,
    watermarks: &[Watermark<W>],
    unknown: UnknownJob,
) -> Result<(), LedgerError> {
    if watermarks.is_empty() {
        return Ok(());
    }
    let record = ledger.job(job)?;
    for Watermark { witness, branch, next_row } in watermarks {
        let known = match &record {
            Some(record) => {
                let compared = record.branch.min(*branch);
                let bound = ledger.binding_summary(job, compared)?.next_row;
                if *branch == compared && *next_row <= bound {
                    continue;
                }
                format!("branch {compared} up to row {bound}")
            }
            None if unknown == UnknownJob::Skip || (*branch, *next_row) == (0, 0) => continue,
            None => "nothing".to_owned(),
        };
        return Err(LedgerError::Behind {
            job: job.to_string(),
            known,
            witness: witness.to_string(),
            seen: format!("branch {branch} up to row {next_row}"),
        });
    }
    Ok(())
}
