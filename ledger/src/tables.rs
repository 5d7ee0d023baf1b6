//! The ledger's tables. Records are JSON, so that a ledger can be read with a generic tool years later.

use redb::TableDefinition;
use serde::{Serialize, de::DeserializeOwned};

use crate::store::Fail;

/// Rises with every change of the tables that an older build can't read.
pub const FORMAT: u64 = 1;

pub const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// Job -> its record, without the text of the plan: `bind` reads it each time, and a plan may have megabytes.
pub const JOBS: TableDefinition<&str, &[u8]> = TableDefinition::new("jobs");
/// Job -> plan.toml.
pub const PLANS: TableDefinition<&str, &str> = TableDefinition::new("plans");
/// Job, shard -> its record.
pub const SHARDS: TableDefinition<(&str, u32), &[u8]> = TableDefinition::new("shards");
/// Job, branch, row -> commitment. Nothing is ever removed from here.
pub const BINDINGS: TableDefinition<(&str, u64, u64), [u8; 32]> = TableDefinition::new("bindings");
/// Job, branch -> rows bound, last bound row + 1, fingerprint of all its bindings.
pub const CURSORS: TableDefinition<(&str, u64), (u64, u64, [u8; 32])> = TableDefinition::new("cursors");
/// Job, id -> record.
pub const CHECKPOINTS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("checkpoints");

pub const META_FORMAT: &str = "format";
pub const META_EPOCH: &str = "coordinator_epoch";

pub fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, Fail> {
    serde_json::to_vec(record).map_err(|error| Fail::Record(error.to_string()))
}

pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fail> {
    serde_json::from_slice(bytes).map_err(|error| Fail::Record(error.to_string()))
}
