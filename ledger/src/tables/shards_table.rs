//! Reads of the table of shards.

use proto::JobId;
use redb::ReadableTable;

use crate::{LedgerError, ShardRecord, error::Fail, tables};

/// Returns the job's shards in order of their ranges.
pub fn all_of(
    table: &impl ReadableTable<(&'static str, u32), &'static [u8]>,
    job: &JobId,
) -> Result<Vec<ShardRecord>, Fail> {
    let mut shards = Vec::new();
    for entry in table.range((job.as_str(), 0)..=(job.as_str(), u32::MAX))? {
        shards.push(tables::decode(entry?.1.value())?);
    }
    Ok(shards)
}

/// Returns the epoch after this one.
pub fn next_epoch(epoch: u64) -> Result<u64, LedgerError> {
    epoch.checked_add(1).ok_or_else(|| LedgerError::invalid("epoch", epoch, "below 2^64 - 1"))
}
