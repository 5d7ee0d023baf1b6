//! Each job's and each data set's chain: every durable event is an entry whose hash covers the event and the entry before. A copy of the
//! newest hash, kept elsewhere, reveals a ledger that was cut, altered or rolled back.

pub mod data_set_event;
pub mod data_sets;
pub mod entry_line;
pub mod event;
pub mod replay;
pub mod stamp;
pub mod verify;

use proto::JobId;
use redb::{ReadTransaction, ReadableTable};
use sha2::{Digest, Sha256};

use crate::{
    Ledger, Result,
    error::Fail,
    store::recording::RecordingTransaction,
    tables::{self, ENTRIES, HEADS, JOBS, jobs_table},
};
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

/// One event with its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry's number, from 0.
    pub index: u64,
    /// The hash of the entry before.
    pub previous: [u8; 32],
    /// The hash of this entry.
    pub hash: [u8; 32],
    /// The event's JSON with its stamp, byte for byte as it was hashed; [`Stamp::split`] takes it apart.
    pub event: String,
}

/// An entry that has just become durable, with its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedEntry {
    /// A job's name, or `data-set/` and a data set's.
    pub chain: String,
    /// The entry.
    pub entry: Entry,
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
    fn read(heads: &impl ReadableTable<&'static str, (u64, [u8; 32])>, job: &str) -> Result<Self, Fail> {
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

/// Returns the hash of one entry; `None` where the chain is shorter.
pub fn hash_at(
    entries: &impl ReadableTable<(&'static str, u64), &'static [u8]>,
    job: &str,
    index: u64,
) -> Result<Option<[u8; 32]>, Fail> {
    entries.get((job, index))?.map(|stored| Ok(split(stored.value())?.0)).transpose()
}

impl Ledger {
    /// Returns the end of the job's chain.
    pub fn head(&self, job: &JobId) -> Result<Head> {
        self.store.read(|transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            Head::read(&transaction.open_table(HEADS)?, job.as_str())
        })
    }

    /// Returns at most `most` entries from index `first` on, in order; fewer where their events would have more than
    /// `most_bytes`, but at least one.
    pub fn entries(&self, job: &JobId, first: u64, most: usize, most_bytes: usize) -> Result<Vec<Entry>> {
        self.store.read(|transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            entries_of(transaction, job.as_str(), first, most, most_bytes)
        })
    }
}

/// Reads entries of the chain of this name.
pub fn entries_of(
    transaction: &ReadTransaction,
    chain: &str,
    first: u64,
    most: usize,
    most_bytes: usize,
) -> Result<Vec<Entry>, Fail> {
    let table = transaction.open_table(ENTRIES)?;
    let mut previous = match first.checked_sub(1) {
        None => Head::empty(chain).hash,
        Some(before) => match hash_at(&table, chain, before)? {
            Some(hash) => hash,
            None => return Ok(Vec::new()),
        },
    };
    let mut entries = Vec::new();
    let mut bytes = 0;
    for stored in table.range((chain, first)..=(chain, u64::MAX))?.take(most) {
        let (key, stored) = stored?;
        let (hash, event) = split(stored.value())?;
        bytes += event.len();
        if bytes > most_bytes && !entries.is_empty() {
            break;
        }
        let event = String::from_utf8(event.to_vec()).map_err(|e| Fail::Record(e.to_string()))?;
        entries.push(Entry { index: key.value().1, previous, hash, event });
        previous = hash;
    }
    Ok(entries)
}
