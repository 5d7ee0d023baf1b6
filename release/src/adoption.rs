//! Adoption: a copy of a ledger continues as a ledger of its own, with fresh noise in every running job.

use ledger::{AnchorPlace, BranchReleases, JobRecord, JobState, Ledger, LedgerError};
use proto::{JobId, Nonce, RowRange, model::OpenBranch};

use crate::budget;

/// A job that an adoption changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedJob {
    /// The job.
    pub job: JobId,
    /// The branch that it is on now; `None` for a run of a sweep, which was finished.
    pub branch: Option<u64>,
    /// The row from which its noise is fresh, or at which the run ended.
    pub from_row: u64,
}

/// Adopts the ledger, and returns it open for binding, with the jobs that were changed. Every running job with an unbound row
/// gets a branch at the first one. A run of a sweep is finished instead: the charge of its sweep, which stays, holds no
/// rewinds. `nonce` draws a random nonce.
///
/// Rows that are bound stay as they are: they are the same in both copies. The unbound ones of the branch before are charged as
/// if the other copy had released them all ([`Ledger::charged`]). What else it released, or releases later, is in no
/// account of this one, and every report says so.
///
/// # Errors
/// Those of [`budget::open_adopted_branch`], [`Ledger::take_over`] and `nonce`. After an error the ledger is what it was, or has
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
        if ledger.charge(&record.job)?.is_some_and(|charge| charge.sweep.is_some()) {
            ledger.set_job_state(&record.job, JobState::Finished)?;
            adopted.push(AdoptedJob { job: record.job, branch: None, from_row });
            continue;
        }
        let request =
            OpenBranch { job: record.job.clone(), from_row, expected_branch: record.branch, parent: None };
        let branch = budget::open_adopted_branch(&ledger, &request, nonce()?)?.job.branch;
        adopted.push(AdoptedJob { job: record.job, branch: Some(branch), from_row });
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
