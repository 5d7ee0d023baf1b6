//! How a range of coordinates, its state and the caller's row buffers are cut into tiles of whole blocks.

use crate::KernelError;
use crate::block::{BLOCK, Block, ZERO_BLOCK};
use std::ops::Range;

/// Blocks handled by one task, at most: 64 KiB of each row.
const TILE: usize = 32;

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

/// Neighbouring blocks with their state and their part of each row buffer.
pub(crate) struct Tile<'a> {
    pub blocks: Range<u64>,
    /// `[block][slot]`
    pub state: &'a mut [Block],
    /// What of the blocks' coordinates is in the range: the row buffers cover just this.
    coordinates: Range<u64>,
    rows: Vec<&'a mut [f32]>,
}

/// Cuts everything into tiles, about eight for each of `threads`. `state` holds `slots` blocks for each block.
pub(crate) fn tiles<'a>(
    range: &Range<u64>,
    slots: usize,
    mut state: &'a mut [Block],
    rows: Vec<&'a mut [f32]>,
    threads: usize,
) -> Vec<Tile<'a>> {
    let all = blocks(range);
    let size = ((all.end - all.start) / (8 * threads as u64)).clamp(1, TILE as u64);
    let mut rows = rows;
    let mut tiles = Vec::new();
    let mut at = all.start;
    while at < all.end {
        let blocks = at..all.end.min(at + size);
        let coordinates = range.start.max(at * BLOCK as u64)..match blocks.end {
            end if end == all.end => range.end,
            end => end * BLOCK as u64,
        };
        let width = (coordinates.end - coordinates.start) as usize;
        let (now, later) = state.split_at_mut((blocks.end - at) as usize * slots);
        state = later;
        let cut = |row: &mut &'a mut [f32]| row.split_off_mut(..width).unwrap_or_default();
        let rows = rows.iter_mut().map(cut).collect();
        at = blocks.end;
        tiles.push(Tile { blocks, state: now, coordinates, rows });
    }
    tiles
}

impl<'a> Tile<'a> {
    /// The state of block `block`, and where its rows are written.
    pub fn block(&mut self, block: u64, slots: usize) -> (&mut [Block], Sink<'_, 'a>) {
        let index = (block - self.blocks.start) as usize;
        let start = block * BLOCK as u64;
        let from = self.coordinates.start.max(start);
        let count = (self.coordinates.end - from).min(BLOCK as u64 - (from - start)) as usize;
        let sink = Sink {
            rows: &mut self.rows,
            at: (from - self.coordinates.start) as usize,
            skipped: (from - start) as usize,
            count,
        };
        (&mut self.state[index * slots..(index + 1) * slots], sink)
    }
}

/// The place of one block in the row buffers; with no buffers, rows are made and dropped.
pub(crate) struct Sink<'t, 'a> {
    rows: &'t mut [&'a mut [f32]],
    /// Where in the buffers the block's first coordinate in the range lies.
    at: usize,
    /// Coordinates of the block before the range, and the number in it.
    skipped: usize,
    count: usize,
}

impl Sink<'_, '_> {
    /// Lets `fill` write all of row `row` of the block, which comes in with any contents, and keeps what is in
    /// the range.
    pub fn write(&mut self, row: usize, fill: impl FnOnce(&mut Block)) {
        let part = self.rows.get_mut(row).and_then(|row| row.get_mut(self.at..self.at + self.count));
        let Some(part) = part else { return fill(&mut ZERO_BLOCK.clone()) };
        match <&mut Block>::try_from(&mut *part) {
            Ok(whole) => fill(whole),
            Err(_) => {
                let mut whole = ZERO_BLOCK;
                fill(&mut whole);
                part.copy_from_slice(&whole[self.skipped..self.skipped + self.count]);
            }
        }
    }
}
