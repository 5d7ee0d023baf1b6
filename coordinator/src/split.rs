//! The ranges of a vector's shards, as pure functions.

use proto::{CoordinateRange, Result, ServiceError};

/// The number of coordinates in a noise block (docs/noise-stream.md), which a shard never splits.
pub const BLOCK: u64 = 512;

/// The most shards of one job: each is a record of the ledger and an entry of every heartbeat.
const MAX_SHARDS: u64 = 4096;

/// Returns the largest number of shards that a vector of this dimension can have.
pub fn most_shards(dimension: u64) -> u64 {
    dimension.div_ceil(BLOCK).min(MAX_SHARDS)
}

/// Returns adjacent ranges that cover 0..dimension, cut at multiples of [`BLOCK`], whose sizes differ by at most one
/// block. Fails if the number of shards is 0 or above [`most_shards`].
pub fn ranges(dimension: u64, shards: u32) -> Result<Vec<CoordinateRange>> {
    let most = most_shards(dimension);
    if !(1..=most).contains(&u64::from(shards)) {
        let allowed = format!("1 to {most} for dimension {dimension} (blocks of {BLOCK} coordinates)");
        return Err(ServiceError::invalid("shards", shards, allowed));
    }
    let blocks = u128::from(dimension.div_ceil(BLOCK));
    let bound = |shard: u32| {
        let block = (blocks * u128::from(shard) / u128::from(shards)) as u64;
        block.saturating_mul(BLOCK).min(dimension)
    };
    (0..shards).map(|shard| CoordinateRange::new(bound(shard), bound(shard + 1))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shards_tile_the_vector_in_whole_blocks(dimension in 1u64..=i64::MAX as u64, wanted in 1u32..5000) {
            let shards = u64::from(wanted).min(most_shards(dimension)) as u32;
            let ranges = ranges(dimension, shards).unwrap();
            prop_assert_eq!(ranges.len(), shards as usize);
            prop_assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, dimension));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            prop_assert!(ranges.iter().all(|range| range.start % BLOCK == 0 && range.start < range.end));
            let blocks = ranges.iter().map(|range| range.len().div_ceil(BLOCK));
            prop_assert!(blocks.clone().max().unwrap() - blocks.min().unwrap() <= 1);
        }
    }

    #[test]
    fn more_shards_than_blocks_are_refused_with_the_maximum() {
        assert_eq!(ranges(1025, 3).unwrap().len(), 3);
        let error = ranges(1025, 4).unwrap_err().to_string();
        assert!(error.contains("1 to 3"), "{error}");
        assert!(ranges(1025, 0).is_err());
        assert!(ranges(u64::MAX, u32::MAX).is_err());
        assert_eq!(ranges(u64::MAX, 2).unwrap()[1].end, u64::MAX);
    }
}
