//! Entries of chains as they are stored, from the first that a chain still has: an archive stands for all before it.

use proto::JobId;
use redb::{ReadTransaction, ReadableTable};

use super::{Head, archive::JobArchive, entry::Entry, split, stamp};
use crate::{
    Ledger, Result,
    error::Fail,
    tables::{self, ENTRIES, JOBS, jobs_table},
};

/// The beginning of the fields of an archive, whose tag comes first.
const ARCHIVED: &[u8] = br#""event":"archived""#;

/// The table of entries, in a transaction that reads or writes.
pub trait Entries: ReadableTable<(&'static str, u64), &'static [u8]> {}
impl<T: ReadableTable<(&'static str, u64), &'static [u8]>> Entries for T {}

/// Returns the hash of one entry; `None` where the chain is shorter.
pub fn hash_at(entries: &impl Entries, job: &str, index: u64) -> Result<Option<[u8; 32]>, Fail> {
    entries.get((job, index))?.map(|stored| Ok(split(stored.value())?.0)).transpose()
}

/// Returns the archive that the job's chain begins with; `None` where it has all of its entries.
pub fn archive_of(entries: &impl Entries, job: &JobId) -> Result<Option<JobArchive>, Fail> {
    let Some(first) = entries.range((job.as_str(), 0)..=(job.as_str(), u64::MAX))?.next() else {
        return Ok(None);
    };
    let (key, stored) = first?;
    if key.value().1 == 0 { Ok(None) } else { read_archive(split(stored.value())?.1) }
}

/// Reads the archive in an entry; `None` where it is another event.
fn read_archive(entry: &[u8]) -> Result<Option<JobArchive>, Fail> {
    let fields = stamp::fields_of(entry)?;
    if !fields.starts_with(ARCHIVED) {
        return Ok(None);
    }
    tables::decode(&stamp::event_of(fields)).map(Some)
}

/// Returns the head before the first entry that a chain still has. Where that is not entry 0, it must be the archive of those
/// before it: before any other entry the head is that of an empty chain, which it can't follow.
pub fn head_before(chain: &str, index: u64, entry: &[u8]) -> Result<Head, Fail> {
    let archive = if index == 0 { None } else { read_archive(entry)? };
    let head = archive.filter(|archive| archive.entries == index);
    Ok(head.map_or_else(|| Head::empty(chain), |archive| Head { entries: index, hash: archive.head }))
}

impl Ledger {
    /// Returns whether the job's bindings and earlier entries were removed, and an archive in its chain stands for them.
    pub fn is_archived(&self, job: &JobId) -> Result<bool> {
        self.store.read(|transaction| Ok(archive_of(&transaction.open_table(ENTRIES)?, job)?.is_some()))
    }

    /// Returns at most `most` entries from index `first` on, in order; fewer where their events would have more than
    /// `most_bytes`, but at least one. From 0 on the chain of an archived job begins with its archive.
    pub fn entries(&self, job: &JobId, first: u64, most: usize, most_bytes: usize) -> Result<Vec<Entry>> {
        self.store.read(|transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            entries_of(transaction, job.as_str(), first, most, most_bytes)
        })
    }
}

/// Reads entries of the chain of this name, as [`Ledger::entries`] does.
pub fn entries_of(
    transaction: &ReadTransaction,
    chain: &str,
    first: u64,
    most: usize,
    most_bytes: usize,
) -> Result<Vec<Entry>, Fail> {
    let table = transaction.open_table(ENTRIES)?;
    let before = first.checked_sub(1).map(|before| hash_at(&table, chain, before)).transpose()?.flatten();
    let mut previous = match before {
        Some(hash) => hash,
        // It is the first entry, or the chain is shorter.
        None => match table.range((chain, first)..=(chain, u64::MAX))?.next() {
            Some(stored) => {
                let (key, stored) = stored?;
                let index = key.value().1;
                if first > 0 && first != index {
                    return Ok(Vec::new());
                }
                head_before(chain, index, split(stored.value())?.1)?.hash
            }
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
