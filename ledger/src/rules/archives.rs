//! Archives of destroyed jobs: their bindings and entries are removed, and one entry stands for them. Nothing is released from a
//! destroyed job any more, so that no call needs to know what a row of it is bound to.

use std::path::Path;

use proto::JobId;
use redb::ReadableTable;
use sha2::{Digest, Sha256};

use super::{
    branches::bound_ranges,
    openings::{Opening, openings_in},
};
use crate::{
    Head, JobRecord, JobState, Ledger, LedgerError, Result, chain,
    chain::{
        archive::{ArchivedBindings, ArchivedBranch, ArchivedOpening, JobArchive},
        entries::archive_of,
        event::Event,
    },
    error::Fail,
    store::{Outcome, recording::RecordingTransaction},
    tables::{
        self, BINDINGS, BRANCHES, CHECKPOINTS, CURSORS, ENTRIES, HEADS, JOBS, SHARDS,
        branch_cursor::BranchCursor, branches_table::OpenedFrom, shards_table,
    },
};

/// Bindings that are removed at once: their keys are in memory.
const PIECE: usize = 4_096;

/// The most bytes of an archive, as JSON: below [`proto::MAX_MESSAGE_BYTES`] where it is quoted in a message too.
pub const MAX_ARCHIVE_BYTES: usize = 4 << 20;

/// What [`Ledger::archive_destroyed`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archives {
    /// The jobs that are archived now.
    pub archived: Vec<ArchivedJob>,
    /// The destroyed jobs that were left as they were.
    pub too_large: Vec<TooLargeArchive>,
}

impl Archives {
    /// Returns the error of a later step, with the jobs that are archived all the same.
    pub(crate) fn failed(&self, path: &Path, error: LedgerError) -> LedgerError {
        if self.archived.is_empty() {
            return error;
        }
        let jobs: Vec<&str> = self.archived.iter().map(|archived| archived.job.as_str()).collect();
        let error = Box::new(error);
        LedgerError::ArchivedInPart { path: path.to_owned(), jobs: jobs.join(", "), error }
    }
}

/// A destroyed job that is not archived: no message could list its archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLargeArchive {
    /// The job.
    pub job: JobId,
    /// The bytes that its archive would have; [`MAX_ARCHIVE_BYTES`] are allowed.
    pub bytes: usize,
}

/// What was removed of a destroyed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedJob {
    /// The job.
    pub job: JobId,
    /// The number of its entries.
    pub entries: u64,
    /// The number of its bindings, on all branches.
    pub rows: u64,
}

impl Ledger {
    /// Archives every destroyed job that is not archived yet, each in one transaction: an entry with what its chain and its
    /// bindings say takes their place. Its name stays in use, and it stays destroyed. A job whose archive would have more than
    /// [`MAX_ARCHIVE_BYTES`] is left as it is: one that bound hundreds of thousands of rows apart from each other.
    ///
    /// # Errors
    /// Those of the store; [`LedgerError::ArchivedInPart`] where jobs are archived already.
    pub fn archive_destroyed(&self) -> Result<Archives> {
        let destroyed = self.store.read(|transaction| {
            let entries = transaction.open_table(ENTRIES)?;
            let mut destroyed = Vec::new();
            for entry in transaction.open_table(JOBS)?.iter()? {
                let record: JobRecord = tables::decode(entry?.1.value())?;
                if record.state == JobState::Destroyed && archive_of(&entries, &record.job)?.is_none() {
                    destroyed.push(record);
                }
            }
            Ok(destroyed)
        })?;
        let mut done = Archives::default();
        for record in &destroyed {
            match self.archive(record).map_err(|error| done.failed(self.store.path(), error))? {
                Ok(archived) => done.archived.push(archived),
                Err(too_large) => done.too_large.push(too_large),
            }
        }
        Ok(done)
    }

    fn archive(&self, record: &JobRecord) -> Result<Result<ArchivedJob, TooLargeArchive>> {
        self.store.write("archive", |transaction| {
            let job = &record.job;
            let archive = describe(transaction, record)?;
            let entries = archive.entries;
            let archive = Event::Archived(Box::new(archive));
            let bytes = tables::encode(&archive)?.len();
            if bytes > MAX_ARCHIVE_BYTES {
                return Ok(Outcome::Nothing(Err(TooLargeArchive { job: job.clone(), bytes })));
            }
            remove_entries(transaction, job, entries)?;
            let rows = remove_bindings(transaction, job)?;
            chain::append_archive(transaction, job, &archive)?;
            Ok(Outcome::Commit(Ok(ArchivedJob { job: job.clone(), entries, rows })))
        })
    }
}

/// Returns what is kept of the job's chain and bindings, which are still there.
fn describe(transaction: &RecordingTransaction<'_>, record: &JobRecord) -> Result<JobArchive, Fail> {
    let job = record.job.as_str();
    let Head { entries, hash } = Head::read(&transaction.open_table(HEADS)?, job)?;
    let table = transaction.open_table(ENTRIES)?;
    let first = table.get((job, 0))?.ok_or_else(|| Fail::Record(format!("job {job} has no first entry")))?;
    let first = String::from_utf8_lossy(chain::split(first.value())?.1).into_owned();
    // The first of them is the job's creation.
    let openings = openings_in(&table, &record.job, u64::MAX)?.into_iter().skip(1);
    let kept =
        |(entry, Opening { of, by, at_ms })| ArchivedOpening { entry, by: by.to_string(), at_ms, began: of };
    let mut checkpoints = Vec::new();
    for stored in transaction.open_table(CHECKPOINTS)?.range((job, 0)..=(job, u64::MAX))? {
        let (key, value) = stored?;
        checkpoints.push((key.value().1, hex::encode(Sha256::digest(value.value()))));
    }
    Ok(JobArchive {
        job: job.to_owned(),
        entries,
        head: hash,
        first,
        layout_epoch: record.layout_epoch,
        shards: shards_table::all_of(&transaction.open_table(SHARDS)?, &record.job)?,
        branches: branches(transaction, job)?,
        bound: bound(transaction, &record.job)?,
        checkpoints,
        openings: openings.map(kept).collect(),
    })
}

fn branches(transaction: &RecordingTransaction<'_>, job: &str) -> Result<Vec<ArchivedBranch>, Fail> {
    let mut branches = Vec::new();
    for stored in transaction.open_table(BRANCHES)?.range((job, 0)..=(job, u64::MAX))? {
        let (key, opened) = stored?;
        let OpenedFrom { parent, from_row, nonce } = OpenedFrom::from_stored(opened.value());
        branches.push(ArchivedBranch { branch: key.value().1, parent, from_row, nonce });
    }
    Ok(branches)
}

fn bound(transaction: &RecordingTransaction<'_>, job: &JobId) -> Result<Vec<ArchivedBindings>, Fail> {
    let bindings = transaction.open_table(BINDINGS)?;
    let mut bound = Vec::new();
    for stored in transaction.open_table(CURSORS)?.range((job.as_str(), 0)..=(job.as_str(), u64::MAX))? {
        let (key, cursor) = stored?;
        let branch = key.value().1;
        let BranchCursor { rows_bound, next_row, fingerprint } = BranchCursor::from_stored(cursor.value());
        let mut root = Sha256::new().chain_update(b"rustle bindings v1");
        let released = bound_ranges(&bindings, job, branch, |row, commitment| {
            root.update(row.to_le_bytes());
            root.update(commitment);
        })?;
        bound.push(ArchivedBindings {
            branch,
            rows_bound,
            next_row,
            fingerprint,
            root: root.finalize().into(),
            released: released.iter().map(|range| (range.start, range.end)).collect(),
        });
    }
    Ok(bound)
}

/// Removes the job's first entries.
fn remove_entries(transaction: &RecordingTransaction<'_>, job: &JobId, entries: u64) -> Result<(), Fail> {
    let mut table = transaction.open_table(ENTRIES)?;
    for index in 0..entries {
        table.remove((job.as_str(), index))?;
    }
    Ok(())
}

/// Removes all of the job's bindings, and returns their number.
fn remove_bindings(transaction: &RecordingTransaction<'_>, job: &JobId) -> Result<u64, Fail> {
    let job = job.as_str();
    let mut table = transaction.open_table(BINDINGS)?;
    let mut removed = 0;
    loop {
        let mut keys = Vec::new();
        for bound in table.range((job, 0, 0)..=(job, u64::MAX, u64::MAX))?.take(PIECE) {
            let (_, branch, row) = bound?.0.value();
            keys.push((branch, row));
        }
        if keys.is_empty() {
            return Ok(removed);
        }
        removed += keys.len() as u64;
        for (branch, row) in keys {
            table.remove((job, branch, row))?;
        }
    }
}
