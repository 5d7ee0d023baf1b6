//! The shards of a job cover its coordinates once, in order.

use proto::CoordinateRange;

use crate::{JobRecord, LedgerError, ShardRecord};

/// Shards numbered 0.., as many as the job says, covering its dimension.
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
    check_ranges(job.dimension, shards.iter().map(|shard| shard.range))
}

/// Ranges that follow each other from 0 to `dimension`, at least one.
pub fn check_ranges(
    dimension: u64,
    ranges: impl Iterator<Item = CoordinateRange>,
) -> Result<(), LedgerError> {
    let mut end = 0;
    for range in ranges {
        if range.start != end || range.end <= range.start || range.end > dimension {
            let allowed = format!("a non-empty range that begins at {end} and ends by {dimension}");
            return Err(LedgerError::invalid("range", range, allowed));
        }
        end = range.end;
    }
    if end == dimension && dimension > 0 {
        Ok(())
    } else {
        Err(LedgerError::invalid(
            "ranges",
            format!("0..{end}"),
            format!("together 0..{dimension}, not empty"),
        ))
    }
}
