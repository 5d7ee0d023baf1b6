//! Each job's and each data set's chain: every durable event is an entry whose hash covers the event and the entry before. A copy of the
//! newest hash, kept elsewhere, reveals a ledger that was cut, altered or rolled back.

mod approval_check;
mod approval_replay;
pub mod archive;
pub mod archive_check;
pub mod bound_text;
pub mod data_set_event;
mod data_set_replay;
pub mod data_sets;
pub mod entries;
pub mod entry;
pub mod entry_line;
pub mod event;
pub mod replay;
pub mod stamp;
pub mod verify;

use proto::JobId;
use redb::ReadableTable;
use sha2::{Digest, Sha256};

use crate::{
    Ledger, Result,
    error::Fail,
    store::recording::RecordingTransaction,
    tables::{self, ENTRIES, HEADS, JOBS, jobs_table},
};
use entry::{AppendedEntry, Entry};
use event::Event;
use stamp::{Principal, Stamp};

/// The end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Entries in the chain.
    pub entries: u64,
    /// The hash of the last entry.
    pub hash: [u8; 32],
}

impl Head {
    /// Returns the head of a chain without entries.
    pub fn empty(job: &str) -> Self {
        Self { entries: 0, hash: Sha256::digest(job).into() }
    }

    /// Returns the head after one more event.
    pub fn next(self, event: &[u8]) -> Self {
        let hash = Sha256::new()
            .chain_update(b"rustle ledger entry v1")
            .chain_update(self.hash)
            .chain_update(self.entries.to_le_bytes())
            .chain_update(event)
            .finalize();
        Self { entries: self.entries + 1, hash: hash.into() }
    }

    /// Reads the head that the next event is chained to. `heads` belongs to the transaction that adds it.
    pub(crate) fn read(
        heads: &impl ReadableTable<&'static str, (u64, [u8; 32])>,
        job: &str,
    ) -> Result<Self, Fail> {
        let stored = heads.get(job)?.map(|head| head.value());
        Ok(stored.map_or_else(|| Self::empty(job), |(entries, hash)| Self { entries, hash }))
    }
}

/// Appends an event to the job's chain, in the transaction that changes the tables accordingly.
pub fn append(transaction: &RecordingTransaction<'_>, job: &JobId, event: &Event) -> Result<(), Fail> {
    append_to(transaction, job.as_str(), transaction.stamp(), &tables::encode(event)?)
}

/// Appends an event as [`append`] does, in a transaction that acts for several: this event is by `by`.
pub fn append_by(
    transaction: &RecordingTransaction<'_>,
    job: &JobId,
    by: &Principal,
    event: &Event,
) -> Result<(), Fail> {
    let stamp = Stamp { by: by.clone(), ..transaction.stamp().clone() };
    append_to(transaction, job.as_str(), &stamp, &tables::encode(event)?)
}

/// Appends a job's archive as [`append`] does. It stands for entries that were counted before, and is not counted itself.
pub fn append_archive(
    transaction: &RecordingTransaction<'_>,
    job: &JobId,
    archive: &Event,
) -> Result<(), Fail> {
    append(transaction, job, archive)?;
    transaction.leave_archive_out();
    Ok(())
}

/// Appends an event's JSON with its stamp to the chain of this name.
fn append_to(
    transaction: &RecordingTransaction<'_>,
    chain: &str,
    stamp: &Stamp,
    event: &[u8],
) -> Result<(), Fail> {
    let event = stamp.joined(event);
    let mut heads = transaction.open_table(HEADS)?;
    let head = Head::read(&heads, chain)?;
    let next = head.next(&event);
    let stored = [&next.hash[..], &event].concat();
    transaction.open_table(ENTRIES)?.insert((chain, head.entries), stored.as_slice())?;
    heads.insert(chain, (next.entries, next.hash))?;
    transaction.entry_added(|| {
        let event = String::from_utf8_lossy(&event).into_owned();
        let entry = Entry { index: head.entries, previous: head.hash, hash: next.hash, event };
        AppendedEntry { chain: chain.to_owned(), entry }
    });
    Ok(())
}

/// Splits a stored entry into its hash and its event with its stamp.
pub fn split(stored: &[u8]) -> Result<([u8; 32], &[u8]), Fail> {
    let (hash, event) =
        stored.split_first_chunk().ok_or_else(|| Fail::Record("an entry of the chain is cut".to_owned()))?;
    Ok((*hash, event))
}

impl Ledger {
    /// Returns the end of the job's chain.
    pub fn head(&self, job: &JobId) -> Result<Head> {
        self.store.read(|transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            Head::read(&transaction.open_table(HEADS)?, job.as_str())
        })
    }
}
