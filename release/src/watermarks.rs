//! Watermarks: how far each branch was released, and under which commitment, as workers and ranks remember it on their own
//! disks. A ledger that knows less, or something else, is an old copy, and releases nothing.

use std::fmt::Display;

use ledger::{JobRecord, Ledger, LedgerError};
use proto::{Commitment, JobId, Nonce};

/// The highest release that one witness remembers of one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark<W> {
    /// The worker or rank that remembers it, named in the error.
    pub witness: W,
    /// The nonce of the job.
    pub nonce: Nonce,
    /// The branch.
    pub branch: u64,
    /// One more than the highest row of the branch that was released; 0 where only the branch is known.
    pub next_row: u64,
    /// The commitment of that highest row; `None` where only the branch is known.
    pub commitment: Option<Commitment>,
}

/// The answer to a watermark of a job that the ledger does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownJob {
    /// Passes. For operations that the ledger itself refuses for a job it does not have: binding and branching.
    Skip,
    /// Refuses every watermark but that of branch 0 with no row. For operations that would create the job anew.
    Refuse,
}

/// Checks that the ledger agrees with all that the watermarks of `job` say. Writes nothing.
///
/// # Errors
/// [`LedgerError::Behind`] for the first watermark of a job with another nonce, of a branch that the ledger does not know,
/// of a row beyond those that it has bound on that branch, or of a row that it has bound to another commitment. A rewind
/// takes back nothing that was released before it, so each watermark is compared with its own branch.
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
    for watermark in watermarks {
        let found = match &record {
            Some(record) => contradiction(ledger, record, watermark)?,
            None => of_unknown_job(watermark, unknown),
        };
        if let Some(Contradiction { known, seen }) = found {
            let witness = watermark.witness.to_string();
            return Err(LedgerError::Behind { job: job.to_string(), known, witness, seen });
        }
    }
    Ok(())
}

/// A difference between the ledger and a watermark, in words.
struct Contradiction {
    known: String,
    seen: String,
}

fn height<W>(watermark: &Watermark<W>) -> String {
    format!("branch {} up to row {}", watermark.branch, watermark.next_row)
}

fn of_unknown_job<W>(watermark: &Watermark<W>, unknown: UnknownJob) -> Option<Contradiction> {
    let is_nothing = (watermark.branch, watermark.next_row) == (0, 0);
    let passes = unknown == UnknownJob::Skip || is_nothing;
    (!passes).then(|| Contradiction { known: "nothing".to_owned(), seen: height(watermark) })
}

fn contradiction<W>(
    ledger: &Ledger,
    record: &JobRecord,
    watermark: &Watermark<W>,
) -> Result<Option<Contradiction>, LedgerError> {
    let Watermark { nonce, branch, next_row, commitment, .. } = watermark;
    if record.nonce != *nonce {
        let known = format!("one with the nonce {}", first_digits(record.nonce.as_bytes()));
        let seen = format!("one with the nonce {}, {}", first_digits(nonce.as_bytes()), height(watermark));
        return Ok(Some(Contradiction { known, seen }));
    }
    let compared = record.branch.min(*branch);
    let bound = ledger.binding_summary(&record.job, compared)?.next_row;
    if *branch != compared || *next_row > bound {
        let known = format!("branch {compared} up to row {bound}");
        return Ok(Some(Contradiction { known, seen: height(watermark) }));
    }
    let Some(row) = next_row.checked_sub(1) else { return Ok(None) };
    if ledger.is_archived(&record.job)? {
        return of_archived_job(ledger, &record.job, watermark, row);
    }
    let bindings = ledger.bindings(&record.job, *branch, row..*next_row)?;
    let bound_to = bindings.first().map(|(_, bound)| *bound);
    if bound_to == *commitment {
        return Ok(None);
    }
    let in_words = |commitment: Option<Commitment>| {
        let under = commitment.map(|it| format!("under the commitment {}", first_digits(&it.digest)));
        format!("row {row} of branch {branch} {}", under.unwrap_or_else(|| "unbound".to_owned()))
    };
    Ok(Some(Contradiction { known: in_words(bound_to), seen: in_words(*commitment) }))
}

/// Compares the mark on `row` of an archived job. What the row was bound to was removed, and none is released any more; that it
/// was bound is known.
fn of_archived_job<W>(
    ledger: &Ledger,
    job: &JobId,
    watermark: &Watermark<W>,
    row: u64,
) -> Result<Option<Contradiction>, LedgerError> {
    let branch = watermark.branch;
    let released = ledger.released(job)?;
    let mut of_branch = released.iter().filter(|releases| releases.branch == branch);
    let is_bound =
        of_branch.any(|releases| releases.released.iter().any(|rows| rows.as_range().contains(&row)));
    if is_bound == watermark.commitment.is_some() {
        return Ok(None);
    }
    let in_words = |is_bound: bool| {
        format!("row {row} of branch {branch} {}", if is_bound { "bound" } else { "unbound" })
    };
    Ok(Some(Contradiction { known: in_words(is_bound), seen: in_words(!is_bound) }))
}

/// Returns enough hex digits to tell two values apart by eye.
fn first_digits(bytes: &[u8; 32]) -> String {
    format!("{}…", hex::encode(&bytes[..6]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test says best where it stands
mod tests {
    use ledger::{JobState, ShardRecord};
    use proto::{CoordinateRange, Lineage, RowRange};

    use super::*;

    fn record() -> JobRecord {
        let nonce = Nonce::from_bytes([9; 32]);
        JobRecord {
            job: JobId::new("j").unwrap(),
            nonce,
            plan_toml: String::new(),
            plan_digest: [1; 32],
            dimension: 1_000,
            layout_digest: [3; 32],
            iterations: 100,
            mechanism: "blt".to_owned(),
            key_commitment: [2; 32],
            branch: 0,
            lineage: Lineage::of_job(nonce),
            shards: 1,
            layout_epoch: 0,
            state: JobState::Running,
        }
    }

    #[test]
    fn a_mark_on_an_archived_job_is_compared_with_the_rows_that_were_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.redb");
        Ledger::init(&path, Nonce::from_bytes([7; 32])).unwrap();
        let ledger = Ledger::open(&path).unwrap();
        let record = record();
        let range = CoordinateRange::new(0, 1_000).unwrap();
        ledger.create_job(&record, &[ShardRecord { shard: 0, range, epoch: 0, owner: None }]).unwrap();
        let commitment = Commitment::of_text("a");
        for row in [0, 1, 5] {
            ledger.bind(&record.job, 0, RowRange::new(row, row + 1).unwrap(), &[commitment]).unwrap();
        }
        ledger.set_job_state(&record.job, JobState::Destroyed).unwrap();
        ledger.archive_destroyed().unwrap();
        let check = |next_row: u64| {
            let commitment = (next_row > 0).then_some(commitment);
            let mark =
                Watermark { witness: "worker w", nonce: record.nonce, branch: 0, next_row, commitment };
            check_not_stale(&ledger, &record.job, &[mark], UnknownJob::Skip)
        };
        for next_row in [0, 1, 2, 6] {
            check(next_row).unwrap();
        }
        // Rows 3 and 4 were never bound; row 6 is beyond all.
        for next_row in [3, 5, 7] {
            let error = check(next_row).unwrap_err();
            assert!(matches!(error, LedgerError::Behind { .. }), "{error}");
        }
    }
}
