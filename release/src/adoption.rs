//! Adoption: a copy of a ledger continues as a ledger of its own, with fresh noise in every running job.

use ledger::{AnchorPlace, BranchReleases, JobRecord, JobState, Ledger, LedgerError};
use proto::{JobId, Nonce, RowRange, model::OpenBranch};

use crate::budget;

/// A branch that an adoption opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedJob {
    /// The job.
    pub job: JobId,
    /// The branch that it is on now.
    pub branch: u64,
    /// The row from which its noise is fresh.
    pub from_row: u64,
}

/// Adopts the ledger, and returns it open for binding, with the branches that were opened: one at the first unbound row
/// of every running job that has one, charged to its data set where it has one. `nonce` draws a random nonce.
///
/// Rows that are bound stay as they are: they are the same in both copies. What the other one released, or releases
/// later, is in no account of this one.
///
/// # Errors
/// Those of [`budget::open_branch`], [`Ledger::take_over`] and `nonce`. After an error the ledger is what it was, or has
/// some of the branches; adopting it again is safe.
pub fn adopt<E: From<LedgerError>>(
    ledger: &Ledger,
    place: &AnchorPlace,
    mut nonce: impl FnMut() -> Result<Nonce, E>,
) -> Result<(Ledger, Vec<AdoptedJob>), E> {
    let ledger = ledger.for_adoption();
    let mut adopted = Vec::new();
    for record in ledger.jobs()? {
        let from_row = first_unbound(&record, &ledger.released(&record.job)?);
        if record.state != JobState::Running || from_row >= record.iterations {
            continue;
        }
        let request =
            OpenBranch { job: record.job.clone(), from_row, expected_branch: record.branch, parent: None };
        let branch = budget::open_branch(&ledger, &request, nonce()?)?.job.branch;
        adopted.push(AdoptedJob { job: record.job, branch, from_row });
    }
    ledger.take_over(place, nonce()?, nonce()?)?;
    Ok((ledger, adopted))
}

/// Returns the first row of the job's current branch that is bound to nothing, which may be one before the branch was opened.
/// Both copies could bind it; so the noise is fresh from there on.
fn first_unbound(record: &JobRecord, released: &[BranchReleases]) -> u64 {
    for (branch, rows) in record.lineage.cut(RowRange { start: 0, end: record.iterations }) {
        let bound = released.iter().find(|releases| releases.branch == branch);
        let ranges = bound.map(|releases| &releases.released[..]).unwrap_or_default();
        let mut row = rows.start;
        for range in ranges.iter().filter(|range| range.end > rows.start) {
            if range.start > row {
                break;
            }
            row = row.max(range.end);
        }
        if row < rows.end {
            return row;
        }
    }
    record.iterations
}
