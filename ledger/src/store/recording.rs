//! A transaction that rules write through: it does what redb's does, and records each change for backends that need it.

use std::{
    borrow::Borrow,
    cell::{Cell, RefCell},
    ops::RangeBounds,
};

use redb::{
    AccessGuard, Key, Range, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, TableHandle, TableStats, WriteTransaction,
};

use crate::{
    chain::{entry::AppendedEntry, stamp::Stamp},
    wire::{change::Change, json_codec::Field},
};

/// A write transaction that records its changes.
pub struct RecordingTransaction<'d> {
    transaction: &'d WriteTransaction,
    /// Who makes the changes, and when.
    stamp: Stamp,
    changes: Option<RefCell<Vec<Change>>>,
    entries: Cell<u64>,
    /// The entries themselves, where someone observes the ledger.
    appended: Option<RefCell<Vec<AppendedEntry>>>,
}

impl<'d> RecordingTransaction<'d> {
    /// Wraps redb's transaction. Changes are recorded where `records_changes`.
    pub fn new(transaction: &'d WriteTransaction, stamp: Stamp, records_changes: bool) -> Self {
        let changes = records_changes.then(RefCell::default);
        Self { transaction, stamp, changes, entries: Cell::new(0), appended: None }
    }

    /// Returns the same transaction, which keeps the entries that are added to chains.
    pub fn keeping_entries(self, keeps_entries: bool) -> Self {
        Self { appended: keeps_entries.then(RefCell::default), ..self }
    }

    /// Counts an entry that was added to a chain, and keeps it where it is wanted.
    pub fn entry_added(&self, entry: impl FnOnce() -> AppendedEntry) {
        self.entries.set(self.entries.get() + 1);
        if let Some(appended) = &self.appended {
            appended.borrow_mut().push(entry());
        }
    }

    /// Takes the entry that was added last out of the count: it is an archive, and [`crate::copies`] leaves those out of a
    /// ledger's height.
    pub fn leave_archive_out(&self) {
        self.entries.set(self.entries.get() - 1);
    }

    /// Takes the entries that were added to chains, in order; none where they were not kept.
    pub fn take_entries(&self) -> Vec<AppendedEntry> {
        self.appended.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Returns how many entries were added to chains, without archives.
    pub fn entries(&self) -> u64 {
        self.entries.get()
    }

    /// Returns who makes the changes, and when.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Opens a table for writing.
    pub fn open_table<K: Field + Key + 'static, V: Field + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<RecordingTable<'_, K, V>, TableError> {
        let table = self.transaction.open_table(definition)?;
        Ok(RecordingTable { table, changes: self.changes.as_ref() })
    }

    /// Returns redb's transaction, for the ledger's identity, which no change touches.
    pub fn redb(&self) -> &'d WriteTransaction {
        self.transaction
    }

    /// Returns the changes in order; none where they were not recorded.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes.map(RefCell::into_inner).unwrap_or_default()
    }
}

/// A table of a [`RecordingTransaction`].
pub struct RecordingTable<'t, K: Key + 'static, V: redb::Value + 'static> {
    table: Table<'t, K, V>,
    changes: Option<&'t RefCell<Vec<Change>>>,
}

impl<K: Field + Key + 'static, V: Field + 'static> RecordingTable<'_, K, V> {
    /// Inserts or replaces the value.
    pub fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<(), StorageError> {
        self.record(key.borrow(), || Some(V::to_json(value.borrow())));
        self.table.insert(key, value).map(drop)
    }

    /// Removes the key, and returns whether it was there.
    pub fn remove<'k>(&mut self, key: impl Borrow<K::SelfType<'k>>) -> Result<bool, StorageError> {
        self.record(key.borrow(), || None);
        Ok(self.table.remove(key)?.is_some())
    }

    fn record<'k>(&self, key: &K::SelfType<'k>, value: impl FnOnce() -> Option<serde_json::Value>) {
        if let Some(changes) = self.changes {
            changes.borrow_mut().push(Change(self.table.name().to_owned(), K::to_json(key), value()));
        }
    }
}

impl<K: Key + 'static, V: redb::Value + 'static> ReadableTableMetadata for RecordingTable<'_, K, V> {
    fn stats(&self) -> Result<TableStats, StorageError> {
        self.table.stats()
    }

    fn len(&self) -> Result<u64, StorageError> {
        self.table.len()
    }
}

impl<K: Key + 'static, V: redb::Value + 'static> ReadableTable<K, V> for RecordingTable<'_, K, V> {
    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<AccessGuard<'_, V>>, StorageError> {
        self.table.get(key)
    }

    fn range<'a, KR>(&self, range: impl RangeBounds<KR> + 'a) -> Result<Range<'_, K, V>, StorageError>
    where
        KR: Borrow<K::SelfType<'a>> + 'a,
    {
        self.table.range(range)
    }

    fn first(&self) -> Result<Option<(AccessGuard<'_, K>, AccessGuard<'_, V>)>, StorageError> {
        self.table.first()
    }

    fn last(&self) -> Result<Option<(AccessGuard<'_, K>, AccessGuard<'_, V>)>, StorageError> {
        self.table.last()
    }
}
