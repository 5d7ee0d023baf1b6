//! Ranges of coordinates and the blocks that they touch.

use crate::KernelError;
use crate::block::{BLOCK, Block};
use std::ops::Range;

/// The number of coordinates. Errors: an empty range; more than this machine can address.
pub(crate) fn check_range(range: &Range<u64>) -> Result<usize, KernelError> {
    if range.is_empty() {
        return Err(KernelError::EmptyRange { start: range.start, end: range.end });
    }
    let coordinates = range.end - range.start;
    let bytes = u128::from(coordinates) * 4;
    let fits = isize::try_from(bytes).is_ok();
    usize::try_from(coordinates)
        .ok()
        .filter(|_| fits)
        .ok_or(KernelError::TooLarge { what: "one row of this range", bytes })
}

/// Numbers of the blocks that a non-empty range touches.
pub(crate) fn blocks(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK as u64..(range.end - 1) / BLOCK as u64 + 1
}

/// The coordinates of a block within a range that touches it.
pub(crate) fn block_range(range: &Range<u64>, block: u64) -> Range<u64> {
    let start = block * BLOCK as u64;
    start.max(range.start)..start.saturating_add(BLOCK as u64).min(range.end)
}

/// Values of a state with `slots` rows for each block that a non-empty range touches.
pub(crate) fn state_length(range: &Range<u64>, slots: usize) -> Result<usize, KernelError> {
    let blocks = blocks(range);
    let bytes = u128::from(blocks.end - blocks.start) * slots as u128 * size_of::<Block>() as u128;
    match isize::try_from(bytes) {
        Ok(bytes) => Ok(bytes as usize / size_of::<f32>()),
        Err(_) => Err(KernelError::TooLarge { what: "the state or the past of this range", bytes }),
    }
}
