//! The check that the shards of a job cover its coordinates once, in order.

use proto::tiling::check_ranges;

use crate::{JobRecord, LedgerError, ShardRecord};

/// Checks that the shards are numbered from 0, are as many as the job says, and cover its dimension.
pub fn check(job: &JobRecord, shards: &[ShardRecord]) -> Result<(), LedgerError> {
    if shards.len() as u64 != u64::from(job.shards) {
        return Err(LedgerError::invalid("shards", shards.len(), format!("the job's {}", job.shards)));
    }
    for (place, record) in shards.iter().enumerate() {
        if u64::from(record.shard) != place as u64 {
            return Err(LedgerError::invalid(
                "shard",
                record.shard,
                format!("{place}: numbers from 0, in order"),
            ));
        }
    }
    Ok(check_ranges(job.dimension, shards.iter().map(|shard| shard.range))?)
}
