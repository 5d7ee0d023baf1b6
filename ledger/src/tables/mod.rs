//! The ledger's tables. Records are JSON, so that a ledger can be read with a generic tool years later.

pub(crate) mod branch_cursor;
pub(crate) mod branches_table;
pub(crate) mod data_sets_table;
pub(crate) mod jobs_table;
pub(crate) mod shards_table;

use proto::Nonce;
use redb::{ReadableTable, TableDefinition};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::Fail;

/// The version of the tables. It rises with every change that an older build can't read. The next is 9: 8 is that of a
/// ledger in etcd whose log was cut, with tables of version 7.
pub const FORMAT: u64 = 7;

/// Numbers of the ledger itself, by name.
pub const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// The ledger's ids, under [`LEDGER_ID`] and [`ADOPTED_ID`], and where it was taken up. In no chain.
pub const IDENTITY: TableDefinition<&str, [u8; 32]> = TableDefinition::new("identity");
/// Job -> its record, without the text of the plan: every `bind` reads the record, and a plan may have megabytes.
pub const JOBS: TableDefinition<&str, &[u8]> = TableDefinition::new("jobs");
/// Job -> plan.toml.
pub const PLANS: TableDefinition<&str, &str> = TableDefinition::new("plans");
/// Job, shard -> its record.
pub const SHARDS: TableDefinition<(&str, u32), &[u8]> = TableDefinition::new("shards");
/// Job, branch whose Z the row has, row -> commitment. Nothing is ever removed from here but all of a destroyed
/// job's, once its chain has an archive of them.
pub const BINDINGS: TableDefinition<(&str, u64, u64), [u8; 33]> = TableDefinition::new("commitments");
/// Job, branch -> rows bound, last bound row + 1, fingerprint of all its bindings.
pub const CURSORS: TableDefinition<(&str, u64), (u64, u64, [u8; 32])> = TableDefinition::new("cursors");
/// Job, branch -> the branch it was opened from, its first row, its nonce. Branch 0 has no entry.
pub const BRANCHES: TableDefinition<(&str, u64), (u64, u64, [u8; 32])> = TableDefinition::new("branches");
/// Job, id -> record.
pub const CHECKPOINTS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("checkpoints");
/// Data set -> its record.
pub const DATA_SETS: TableDefinition<&str, &[u8]> = TableDefinition::new("data_sets");
/// Job -> what it is charged for, in which data set.
pub const CHARGES: TableDefinition<&str, &[u8]> = TableDefinition::new("charges");
/// Sweep -> its record, with the number of runs that was drawn.
pub const SWEEPS: TableDefinition<&str, &[u8]> = TableDefinition::new("sweeps");
/// Job or `data-set/` and a data set, index -> hash of the entry, then its event as JSON, behind who and when. An archived
/// job's begin with its archive.
pub const ENTRIES: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("entries");
/// Job or `data-set/` and a data set -> number of its entries, hash of the last.
pub const HEADS: TableDefinition<&str, (u64, [u8; 32])> = TableDefinition::new("heads");

/// The key of [`FORMAT`].
pub const META_FORMAT: &str = "format";
/// The key of the id that the ledger was begun with.
pub const LEDGER_ID: &str = "ledger";
/// The key of the id that a copy of a ledger was adopted under, which stands for the first one outside of the ledger.
pub const ADOPTED_ID: &str = "adopted";
/// The key of what identifies the ledger's file among its copies.
pub const LEDGER_FILE: &str = "file";
/// The key of the epoch of the newest coordinator.
pub const META_EPOCH: &str = "coordinator_epoch";

/// Creates all tables that are missing, so that every reader finds every table.
pub fn create_all(transaction: &redb::WriteTransaction) -> Result<(), redb::TableError> {
    transaction.open_table(META)?;
    transaction.open_table(IDENTITY)?;
    transaction.open_table(JOBS)?;
    transaction.open_table(PLANS)?;
    transaction.open_table(SHARDS)?;
    transaction.open_table(BINDINGS)?;
    transaction.open_table(CURSORS)?;
    transaction.open_table(BRANCHES)?;
    transaction.open_table(CHECKPOINTS)?;
    transaction.open_table(DATA_SETS)?;
    transaction.open_table(CHARGES)?;
    transaction.open_table(SWEEPS)?;
    transaction.open_table(ENTRIES)?;
    transaction.open_table(HEADS)?;
    Ok(())
}

/// Returns the id that the ledger was begun with, which its chains name.
pub fn ledger_id(identity: &impl ReadableTable<&'static str, [u8; 32]>) -> Result<Nonce, Fail> {
    let id = identity.get(LEDGER_ID)?.map(|id| Nonce::from_bytes(id.value()));
    id.ok_or_else(|| Fail::Record("the ledger has no id".to_owned()))
}

/// Returns the id that the ledger has outside of it: that of its last adoption, or the first one.
pub fn current_id(identity: &impl ReadableTable<&'static str, [u8; 32]>) -> Result<Nonce, Fail> {
    let adopted = identity.get(ADOPTED_ID)?.map(|id| Nonce::from_bytes(id.value()));
    adopted.map_or_else(|| ledger_id(identity), Ok)
}

/// Encodes a record as JSON.
pub fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, Fail> {
    serde_json::to_vec(record).map_err(|error| Fail::Record(error.to_string()))
}

/// Decodes a record. Error: the bytes are not its JSON.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fail> {
    serde_json::from_slice(bytes).map_err(|error| Fail::Record(error.to_string()))
}
