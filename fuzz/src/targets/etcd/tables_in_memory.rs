//! The ledger's tables in memory, to be opened by a ledger and without one.

use std::{
    io,
    path::Path,
    sync::{Arc, LazyLock},
};

use ledger::{
    Ledger,
    tables::{BINDINGS, BRANCHES, CHECKPOINTS, CURSORS, ENTRIES, HEADS, JOBS, META, PLANS, SHARDS},
    wire::{change::Change, json_codec::Field},
};
use proto::Nonce;
use redb::{
    Database, Key, ReadableTable, StorageBackend, TableDefinition, TableHandle, WriteTransaction,
    backends::InMemoryBackend,
};

/// Clones are the same one.
#[derive(Clone, Debug)]
pub struct Disk(Arc<InMemoryBackend>);

/// A new ledger's.
static BEGUN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let disk = Disk(Arc::new(InMemoryBackend::new()));
    drop(open(&disk).expect("a new ledger"));
    let mut bytes = vec![0; disk.len().expect("memory") as usize];
    disk.read(0, &mut bytes).expect("memory");
    bytes
});

impl Disk {
    /// With tables that are empty but for their format.
    pub fn begun() -> Self {
        let disk = Self(Arc::new(InMemoryBackend::new()));
        disk.set_len(BEGUN.len() as u64).expect("memory");
        disk.write(0, &BEGUN).expect("memory");
        disk
    }

    pub fn database(&self) -> Database {
        Database::builder().create_with_backend(self.clone()).expect("tables in memory")
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

/// Everything is checked, as a leader's tables are.
pub fn open(disk: &Disk) -> ledger::Result<Ledger> {
    Ledger::open_on(disk.clone(), Path::new("memory"), Nonce::from_bytes([1; 32]))
}

/// All of them, as changes that would make them.
pub fn rows(transaction: &WriteTransaction) -> Vec<Change> {
    [
        of(transaction, META),
        of(transaction, JOBS),
        of(transaction, PLANS),
        of(transaction, SHARDS),
        of(transaction, BINDINGS),
        of(transaction, CURSORS),
        of(transaction, BRANCHES),
        of(transaction, CHECKPOINTS),
        of(transaction, ENTRIES),
        of(transaction, HEADS),
    ]
    .concat()
}

pub fn rows_of(tables: &Database) -> Vec<Change> {
    let transaction = tables.begin_write().expect("tables in memory");
    let rows = rows(&transaction);
    transaction.abort().expect("tables in memory");
    rows
}

fn of<K: Field + Key + 'static, V: Field + 'static>(
    transaction: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
) -> Vec<Change> {
    let table = transaction.open_table(definition).expect("a table");
    let rows = table.iter().expect("a table");
    let change = |row: Result<(redb::AccessGuard<'_, K>, redb::AccessGuard<'_, V>), _>| {
        let (key, value) = row.expect("a row");
        Change(definition.name().to_owned(), K::to_json(&key.value()), Some(V::to_json(&value.value())))
    };
    rows.map(change).collect()
}
