//! A range of coordinates, its state and the caller's buffers for rows of whole numbers, cut into tasks for threads.

use super::decide::{Values, WholeBlock};
use crate::block::BLOCK;
use crate::memory::as_binary32;
use crate::range::blocks;
use std::ops::Range;

/// Most blocks of one task.
const MOST_BLOCKS: u64 = 32;

/// Most binary32 values fetched ahead: a part of a second level cache.
const MOST_AHEAD: usize = 32_768;

/// The state of some blocks, `[block][slot]`.
pub(crate) enum StatePart<'a> {
    Whole(&'a mut [WholeBlock]),
    Floats(&'a mut [Values]),
}

impl<'a> StatePart<'a> {
    fn split_off(&mut self, count: usize) -> StatePart<'a> {
        match self {
            StatePart::Whole(rows) => StatePart::Whole(rows.split_off_mut(..count).unwrap_or_default()),
            StatePart::Floats(rows) => StatePart::Floats(rows.split_off_mut(..count).unwrap_or_default()),
        }
    }

    /// A range, and as much that follows it, for fetching.
    fn part(&mut self, range: Range<usize>) -> (StatePart<'_>, &[f32]) {
        let start = range.start;
        let count = range.len();
        match self {
            StatePart::Whole(rows) => {
                let (part, after) = rows[start..].split_at_mut(count);
                (StatePart::Whole(part), as_binary32(after[..count.min(after.len())].as_flattened()))
            }
            StatePart::Floats(rows) => {
                let (part, after) = rows[start..].split_at_mut(count);
                (StatePart::Floats(part), as_binary32(after[..count.min(after.len())].as_flattened()))
            }
        }
    }
}

/// Neighbouring blocks with their state and their part of each row buffer.
pub(crate) struct GridTask<'a> {
    pub blocks: Range<u64>,
    state: StatePart<'a>,
    slots: usize,
    /// The blocks' coordinates that are in the range: the row buffers cover just these.
    coordinates: Range<u64>,
    rows: Vec<&'a mut [i32]>,
}

/// Cuts everything into tasks, about eight for each of `threads`.
pub(crate) fn tasks<'a>(
    range: &Range<u64>,
    slots: usize,
    mut state: StatePart<'a>,
    mut rows: Vec<&'a mut [i32]>,
    threads: usize,
) -> Vec<GridTask<'a>> {
    let all = blocks(range);
    let size = ((all.end - all.start) / (8 * threads as u64)).clamp(1, MOST_BLOCKS);
    let mut tasks = Vec::new();
    let mut at = all.start;
    while at < all.end {
        let blocks = at..all.end.min(at + size);
        let end = if blocks.end == all.end { range.end } else { blocks.end * BLOCK as u64 };
        let coordinates = range.start.max(at * BLOCK as u64)..end;
        let width = (coordinates.end - coordinates.start) as usize;
        let state = state.split_off((blocks.end - at) as usize * slots);
        let rows = rows.iter_mut().map(|row| row.split_off_mut(..width).unwrap_or_default()).collect();
        at = blocks.end;
        tasks.push(GridTask { blocks, state, slots, coordinates, rows });
    }
    tasks
}

impl<'a> GridTask<'a> {
    /// The state of block `block`, where its rows are written, and the state that is needed next.
    pub fn block(&mut self, block: u64) -> TaskBlock<'_, 'a> {
        let index = (block - self.blocks.start) as usize;
        let start = block * BLOCK as u64;
        let from = self.coordinates.start.max(start);
        let count = (self.coordinates.end - from).min(BLOCK as u64 - (from - start)) as usize;
        let sink = GridSink {
            rows: &mut self.rows,
            at: (from - self.coordinates.start) as usize,
            skipped: (from - start) as usize,
            count,
        };
        let (state, ahead) = self.state.part(index * self.slots..(index + 1) * self.slots);
        TaskBlock { state, sink, ahead: &ahead[..MOST_AHEAD.min(ahead.len())] }
    }
}

/// One block of a task.
pub(crate) struct TaskBlock<'t, 'a> {
    pub state: StatePart<'t>,
    pub sink: GridSink<'t, 'a>,
    /// Memory that the next block needs.
    pub ahead: &'t [f32],
}

/// The place of one block in the row buffers; with no buffers, rows are made and dropped.
pub(crate) struct GridSink<'t, 'a> {
    rows: &'t mut [&'a mut [i32]],
    /// Where in the buffers the block's first coordinate in the range lies.
    at: usize,
    /// Coordinates of the block before the range, and the number in it.
    skipped: usize,
    count: usize,
}

impl GridSink<'_, '_> {
    /// Writes the part of row `row` of the call that is in the range.
    pub fn write(&mut self, row: usize, n: &WholeBlock) {
        let n = &n[self.skipped..self.skipped + self.count];
        if let Some(out) = self.rows.get_mut(row) {
            out[self.at..self.at + self.count].copy_from_slice(n);
        }
    }
}
