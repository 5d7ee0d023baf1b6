//! A ledger's file, read without opening the ledger: nothing is written, nothing is taken up, and no process need run.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proto::{JobId, Nonce};
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};

use crate::{
    Entry, Head, LedgerError, Result,
    chain::{self, entries, verify},
    error::Fail,
    store::open,
    tables::{self, CURSORS, ENTRIES, HEADS, IDENTITY, branch_cursor},
};

/// Entries that are read at once.
const PAGE: usize = 1_024;
/// The most bytes of events that are read at once.
const PAGE_BYTES: usize = 8 << 20;

/// A ledger's file that is read and never written, for tools. As long as one is there, nothing opens the ledger for writing.
pub struct LedgerFile {
    db: Database,
    path: PathBuf,
}

/// A chain of a ledger: a job's, or `data-set/` and a data set's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The name of the chain.
    pub name: String,
    /// Its end.
    pub head: Head,
    /// Rows bound on all branches; 0 for a data set.
    pub rows_bound: u64,
    /// Entries that were removed, which an archive stands for: those before the first that is there.
    pub archived: u64,
}

/// What is wrong with a ledger, and the first entry that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The chain and the index of the first entry that doesn't follow from those before; `None` where all do, and a table
    /// is not what they say.
    pub entry: Option<(String, u64)>,
    /// What is wrong.
    pub reason: String,
}

impl LedgerFile {
    /// Reads the file at `path`, and checks its checksums and its format, but not its chains. The file is left as it is, and
    /// must not be open in another process.
    ///
    /// # Errors
    /// [`LedgerError::Missing`], [`LedgerError::Locked`], [`LedgerError::Damaged`], [`LedgerError::Format`],
    /// [`LedgerError::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self { db: open::read(path)?, path: path.to_owned() })
    }

    /// Returns the id that the ledger was begun with, which its adopted copies share.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`].
    pub fn id(&self) -> Result<Nonce> {
        self.within(|transaction| tables::ledger_id(&transaction.open_table(IDENTITY)?))
    }

    /// Returns all chains, in order of their names.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`].
    pub fn chains(&self) -> Result<Vec<Chain>> {
        self.within(|transaction| {
            let cursors = transaction.open_table(CURSORS)?;
            let stored_entries = transaction.open_table(ENTRIES)?;
            let mut chains = Vec::new();
            for stored in transaction.open_table(HEADS)?.iter()? {
                let (name, head) = stored?;
                let name = name.value().to_owned();
                let (entries, hash) = head.value();
                // A data set's chain has no job's name.
                let job = JobId::new(name.clone()).ok();
                let rows_bound = job.map(|job| branch_cursor::rows_bound(&cursors, &job)).transpose()?;
                let first = stored_entries.range((&*name, 0)..=(&*name, u64::MAX))?.next().transpose()?;
                let archived = first.map_or(0, |(key, _)| key.value().1);
                let head = Head { entries, hash };
                chains.push(Chain { name, head, rows_bound: rows_bound.unwrap_or(0), archived });
            }
            Ok(chains)
        })
    }

    /// Calls `visit` with the entries of a chain from `first` on, in order, until it returns false. From 0 on the chain of an
    /// archived job begins with its archive.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`], or what `visit` returns.
    pub fn entries<E: From<LedgerError>>(
        &self,
        chain: &str,
        first: u64,
        mut visit: impl FnMut(Entry) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut first = first;
        loop {
            let page =
                self.within(|transaction| entries::entries_of(transaction, chain, first, PAGE, PAGE_BYTES))?;
            if page.is_empty() {
                return Ok(());
            }
            for entry in page {
                first = entry.index + 1;
                if !visit(entry)? {
                    return Ok(());
                }
            }
        }
    }

    /// Checks all that opening the ledger checks: every chain to its head, and every table against the chains, so that each
    /// row is bound once and to one commitment. Returns the first fault, if there is one.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] for a store that can't be read.
    pub fn verify(&self) -> Result<Option<Fault>> {
        match verify::verify(&self.db, &self.path) {
            Ok(()) => Ok(None),
            Err(LedgerError::Damaged { reason, .. }) => {
                Ok(Some(Fault { entry: self.within(first_break)?, reason }))
            }
            Err(error) => Err(error),
        }
    }

    fn within<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T, Fail>) -> Result<T> {
        let damaged = |reason: String| LedgerError::Damaged { path: self.path.clone(), reason };
        let transaction = self.db.begin_read().map_err(|error| damaged(error.to_string()))?;
        read(&transaction).map_err(|fail| match fail {
            Fail::Refused(error) => error,
            Fail::Store(error) => damaged(error.to_string()),
            Fail::Record(reason) => damaged(reason),
        })
    }
}

/// The first entry that is not what its hash and its place say; else the place after a chain's last entry, where its head
/// has another.
fn first_break(transaction: &ReadTransaction) -> Result<Option<(String, u64)>, Fail> {
    let mut walked = BTreeMap::<String, Head>::new();
    for stored in transaction.open_table(ENTRIES)?.iter()? {
        let (key, stored) = stored?;
        let (name, index) = key.value();
        let cut = chain::split(stored.value()).ok();
        let before_first = || cut.and_then(|(_, event)| entries::head_before(name, index, event).ok());
        let head = walked.get(name).copied().or_else(before_first).unwrap_or_else(|| Head::empty(name));
        let next = cut.and_then(|(hash, event)| {
            let next = head.next(event);
            (index == head.entries && hash == next.hash).then_some(next)
        });
        let Some(next) = next else { return Ok(Some((name.to_owned(), head.entries))) };
        walked.insert(name.to_owned(), next);
    }
    for stored in transaction.open_table(HEADS)?.iter()? {
        let (name, head) = stored?;
        let name = name.value();
        let (entries, hash) = head.value();
        let end = walked.remove(name).unwrap_or_else(|| Head::empty(name));
        if end != (Head { entries, hash }) {
            return Ok(Some((name.to_owned(), end.entries.min(entries))));
        }
    }
    Ok(walked.into_iter().next().map(|(name, _)| (name, 0)))
}
