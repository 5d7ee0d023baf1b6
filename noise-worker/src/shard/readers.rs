//! The memory of a shard that readers hold: as much as its window may have, and no more. Readers beyond that get small
//! copies.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use proto::ServiceError;

/// The rows of a shard that are on their way to readers.
#[derive(Debug)]
pub struct ReaderRows {
    row_bytes: u64,
    held: Mutex<HeldRows>,
}

#[derive(Debug, Default)]
struct HeldRows {
    /// The readers of each row of the window: one row is in memory once.
    rows: BTreeMap<u64, usize>,
    /// Bytes of copies and of pieces that were replayed.
    copies: u64,
}

/// Memory that a reader holds, until it is dropped.
#[derive(Debug)]
pub struct ReaderHold {
    readers: Arc<ReaderRows>,
    memory: HeldMemory,
}

#[derive(Clone, Copy, Debug)]
enum HeldMemory {
    Row(u64),
    Copy(u64),
}

impl ReaderRows {
    /// Returns the rows of a shard, each of so many bytes. None is held.
    pub fn new(row_bytes: u64) -> Arc<Self> {
        Arc::new(Self { row_bytes, held: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, HeldRows> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes that are held.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes_of(&self.held())
    }

    fn bytes_of(&self, held: &HeldRows) -> u64 {
        held.copies + held.rows.len() as u64 * self.row_bytes
    }

    /// Holds a row of the window; `None` where readers have `most_rows` of memory already.
    pub fn row(self: &Arc<Self>, row: u64, most_rows: u64) -> Option<ReaderHold> {
        let mut held = self.held();
        let is_room = self.bytes_of(&held) + self.row_bytes <= most_rows * self.row_bytes;
        if !is_room && !held.rows.contains_key(&row) {
            return None;
        }
        *held.rows.entry(row).or_default() += 1;
        Some(ReaderHold { readers: self.clone(), memory: HeldMemory::Row(row) })
    }

    /// Holds memory of a reader's own; `None` where readers have `most_rows` of memory already.
    pub fn copy(self: &Arc<Self>, bytes: u64, most_rows: u64) -> Option<ReaderHold> {
        let mut held = self.held();
        if self.bytes_of(&held) + bytes > most_rows * self.row_bytes {
            return None;
        }
        held.copies += bytes;
        Some(ReaderHold { readers: self.clone(), memory: HeldMemory::Copy(bytes) })
    }
}

impl ReaderHold {
    /// Returns the same bytes, which hold the memory until they are dropped.
    pub fn keep(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        struct HeldBytes(Bytes, #[expect(dead_code, reason = "dropped with the bytes")] Arc<ReaderHold>);
        impl AsRef<[u8]> for HeldBytes {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        Bytes::from_owner(HeldBytes(bytes, self.clone()))
    }
}

impl Drop for ReaderHold {
    fn drop(&mut self) {
        let mut held = self.readers.held();
        match self.memory {
            HeldMemory::Copy(bytes) => held.copies -= bytes,
            HeldMemory::Row(row) => match held.rows.get(&row).map_or(0, |readers| readers - 1) {
                0 => _ = held.rows.remove(&row),
                readers => _ = held.rows.insert(row, readers),
            },
        }
    }
}

/// Returns the error for a reader that takes nothing for so long.
pub fn reader_is_stalled(limit: Duration) -> ServiceError {
    ServiceError::ResourceExhausted {
        what: "the time in which a reader must take something (--reader-timeout of the worker)".to_owned(),
        limit: format!("{limit:?}; what is missing may be fetched again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_one_row_hold_it_once_and_other_rows_have_a_limit() {
        let rows = ReaderRows::new(100);
        let first = rows.row(5, 2).unwrap();
        let again = rows.row(5, 2).unwrap();
        let second = rows.row(6, 2).unwrap();
        assert!(rows.row(7, 2).is_none() && rows.copy(1, 2).is_none());
        assert!(rows.row(6, 2).is_some(), "it is in memory anyway");
        drop(first);
        assert_eq!(rows.bytes(), 200);
        drop(again);
        let copy = rows.copy(60, 2).unwrap();
        assert!(rows.row(7, 2).is_none() && rows.copy(41, 2).is_none());
        assert_eq!(rows.bytes(), 160);
        drop((second, copy));
        assert_eq!(rows.bytes(), 0);
    }

    #[test]
    fn bytes_hold_their_memory() {
        let rows = ReaderRows::new(4);
        let hold = Arc::new(rows.row(0, 1).unwrap());
        let bytes = hold.keep(Bytes::from_static(b"1234"));
        drop(hold);
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((&part[..], rows.bytes()), (&b"2"[..], 4));
        drop(part);
        assert_eq!(rows.bytes(), 0);
    }
}
