//! The cut of a vector into shards, and the check that shards cover it: pure functions.

use crate::{CoordinateRange, InvalidValue};

/// Noise is made in blocks of this many coordinates (docs/noise-stream.md), and a shard never splits one.
pub const SHARD_ALIGNMENT: u64 = 512;

/// The most shards of a job under a coordinator: each is a record of the ledger and an entry of every heartbeat.
pub const MAX_SHARDS: u64 = 4096;

/// Returns the most shards that a coordinator can cut a vector of this dimension into.
pub fn most_shards(dimension: u64) -> u64 {
    dimension.div_ceil(SHARD_ALIGNMENT).min(MAX_SHARDS)
}

/// Cuts `0..dimension` into `shards` neighbouring ranges at multiples of [`SHARD_ALIGNMENT`], in order. Their sizes
/// differ by one block at most.
///
/// `limit` is the most shards that the caller can manage, such as [`MAX_SHARDS`]; [`u64::MAX`] is no limit.
///
/// # Errors
///
/// `shards` is 0, above `limit`, or above the number of blocks.
///
/// # Example
///
/// ```
/// use proto::{CoordinateRange, tiling};
///
/// let shards = tiling::split(1300, 2, tiling::MAX_SHARDS).unwrap();
/// assert_eq!(shards, [CoordinateRange { start: 0, end: 512 }, CoordinateRange { start: 512, end: 1300 }]);
/// assert!(tiling::check_ranges(1300, shards.into_iter()).is_ok());
/// assert!(tiling::split(1300, 4, tiling::MAX_SHARDS).is_err(), "three blocks are at most three shards");
/// ```
pub fn split(dimension: u64, shards: u64, limit: u64) -> Result<Vec<CoordinateRange>, InvalidValue> {
    let blocks = dimension.div_ceil(SHARD_ALIGNMENT);
    let most = blocks.min(limit);
    if !(1..=most).contains(&shards) {
        let allowed =
            format!("1 to {most} for dimension {dimension} (blocks of {SHARD_ALIGNMENT} coordinates)");
        return Err(InvalidValue::new("shards", shards, allowed));
    }
    let bound = |shard: u64| {
        let block = (u128::from(blocks) * u128::from(shard) / u128::from(shards)) as u64;
        block.saturating_mul(SHARD_ALIGNMENT).min(dimension)
    };
    // Every shard has at least one block, so that no range is empty.
    Ok((0..shards).map(|shard| CoordinateRange { start: bound(shard), end: bound(shard + 1) }).collect())
}

/// Checks that the ranges follow each other from 0 to `dimension`, at least one.
///
/// # Errors
///
/// The first range that leaves a gap, overlaps, is empty or goes beyond; or that together they end too early.
pub fn check_ranges(
    dimension: u64,
    ranges: impl Iterator<Item = CoordinateRange>,
) -> Result<(), InvalidValue> {
    let mut end = 0;
    for range in ranges {
        if range.start != end || range.end <= range.start || range.end > dimension {
            let allowed = format!("a non-empty range that begins at {end} and ends by {dimension}");
            return Err(InvalidValue::new("range", range, allowed));
        }
        end = range.end;
    }
    if end != dimension || dimension == 0 {
        let allowed = format!("together 0..{dimension}, not empty");
        return Err(InvalidValue::new("ranges", format!("0..{end}"), allowed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shards_tile_the_vector_in_whole_blocks(dimension in 1u64..=i64::MAX as u64, wanted in 1u32..5000) {
            let shards = u64::from(wanted).min(most_shards(dimension));
            let ranges = split(dimension, shards, MAX_SHARDS).unwrap();
            prop_assert_eq!(ranges.len(), shards as usize);
            prop_assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, dimension));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            prop_assert!(ranges.iter().all(|range| range.start % SHARD_ALIGNMENT == 0 && range.start < range.end));
            let blocks = ranges.iter().map(|range| range.len().div_ceil(SHARD_ALIGNMENT));
            prop_assert!(check_ranges(dimension, ranges.iter().copied()).is_ok());
            prop_assert!(blocks.clone().max().unwrap() - blocks.min().unwrap() <= 1);
        }
    }

    #[test]
    fn more_shards_than_blocks_are_refused_with_the_maximum() {
        assert_eq!(split(1025, 3, MAX_SHARDS).unwrap().len(), 3);
        let error = split(1025, 4, MAX_SHARDS).unwrap_err().to_string();
        assert!(error.contains("1 to 3"), "{error}");
        assert!(split(1025, 0, MAX_SHARDS).is_err());
        assert!(split(u64::MAX, u32::MAX.into(), MAX_SHARDS).is_err());
        assert_eq!(split(u64::MAX, 2, MAX_SHARDS).unwrap()[1].end, u64::MAX);
    }
    #[test]
    fn the_limit_is_the_callers() {
        let many = 5_000 * SHARD_ALIGNMENT;
        assert_eq!(split(many, 5_000, u64::MAX).unwrap().len(), 5_000);
        let error = split(many, 5_000, MAX_SHARDS).unwrap_err().to_string();
        assert!(error.contains("1 to 4096"), "{error}");
        assert!(split(many, MAX_SHARDS, MAX_SHARDS).is_ok());
    }

    #[test]
    fn ranges_that_do_not_cover_the_vector_once_are_refused() {
        let check = |ranges: &[(u64, u64)]| {
            check_ranges(1024, ranges.iter().map(|&(start, end)| CoordinateRange { start, end }))
        };
        assert_eq!(check(&[(0, 512), (512, 1024)]), Ok(()));
        let bad: [&[(u64, u64)]; 6] = [
            &[],
            &[(0, 512)],
            &[(0, 512), (600, 1024)],
            &[(0, 513), (512, 1024)],
            &[(0, 0), (0, 1024)],
            &[(0, 1025)],
        ];
        assert!(bad.iter().all(|ranges| check(ranges).is_err()));
        assert!(check_ranges(0, std::iter::empty()).is_err());
    }
}
