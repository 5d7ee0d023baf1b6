//! A range of coordinates, its state and the caller's row buffers, cut into tasks of whole blocks for threads.

use crate::block::{BLOCK, Block};
use crate::dispatch::Active;
use crate::memory::begins_line;
use crate::output::Row;
use crate::prefetch::NEXT_STATE_VALUES;
use crate::range::blocks;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most blocks of one task: 64 KiB of each row.
const MOST_BLOCKS: usize = 32;

/// Bytes of rows and state from which a call's rows go past the caches: at its end most of them would have left these
/// anyway.
const STREAMED_BYTES: usize = 16 << 20;

/// Most slots of state with which rows go past the caches: with a longer past, rows through the caches were faster.
const STREAMED_MAX_SLOTS: usize = 16;

/// Neighbouring blocks with their state and their part of each row buffer.
pub(crate) struct Task<'a> {
    pub blocks: Range<u64>,
    /// `[block][slot]`
    pub state: &'a mut [Block],
    /// The blocks' coordinates that are in the range: the row buffers cover just these.
    coordinates: Range<u64>,
    rows: Vec<Row<'a>>,
    active: Active,
    /// True where rows go past the caches.
    streams: bool,
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if self.streams {
            self.active.fence();
        }
    }
}

/// Cuts everything into tasks, about eight for each of `threads`. `state` holds `slots` blocks for each block.
pub(crate) fn tasks<'a>(
    range: &Range<u64>,
    slots: usize,
    mut state: &'a mut [Block],
    rows: Vec<Row<'a>>,
    active: Active,
    threads: usize,
) -> Vec<Task<'a>> {
    let all = blocks(range);
    let touched = size_of_val(state) + rows.iter().map(Row::bytes).sum::<usize>();
    let streams = touched >= STREAMED_BYTES && slots <= STREAMED_MAX_SLOTS;
    let size = ((all.end - all.start) / (8 * threads as u64)).clamp(1, MOST_BLOCKS as u64);
    let mut rows = rows;
    let mut tasks = Vec::new();
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
        let rows = rows.iter_mut().map(|row| row.split_off(width)).collect();
        at = blocks.end;
        tasks.push(Task { blocks, state: now, coordinates, rows, active, streams });
    }
    tasks
}

/// Works on all tasks, on all threads of the current pool. Each thread begins with its own stretch of them,
/// always the same one, so that state stays in the memory and the caches next to it; then it helps the others.
pub(crate) fn on_own_threads<K: Send, T>(
    tasks: Vec<K>,
    scratch: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, &mut K) + Sync,
) {
    let count = tasks.len();
    let tasks: Vec<_> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
    let threads = rayon::current_num_threads();
    let stretch = |thread: usize| count * thread / threads..count * (thread + 1) / threads;
    let next: Vec<_> = (0..threads).map(|thread| AtomicUsize::new(stretch(thread).start)).collect();
    let run = |own: usize| {
        let mut own_scratch = None;
        for thread in (own..threads).chain(0..own) {
            loop {
                let at = next[thread].fetch_add(1, Ordering::Relaxed);
                if at >= stretch(thread).end {
                    break;
                }
                let task = tasks[at].lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(mut task) = task {
                    work(own_scratch.get_or_insert_with(&scratch), &mut task);
                }
            }
        }
    };
    // Not a broadcast, which would wait for threads that are busy with other work.
    (0..threads)
        .into_par_iter()
        .with_max_len(1)
        .for_each(|_| run(rayon::current_thread_index().unwrap_or(0)));
}

impl<'a> Task<'a> {
    /// The state of block `block`, and where its rows are written, multiplied by `scale`.
    pub fn block(&mut self, block: u64, slots: usize, scale: f32) -> (&mut [Block], Sink<'_, 'a>) {
        let index = (block - self.blocks.start) as usize;
        let start = block * BLOCK as u64;
        let from = self.coordinates.start.max(start);
        let count = (self.coordinates.end - from).min(BLOCK as u64 - (from - start)) as usize;
        let (state, next) = self.state[index * slots..].split_at_mut(slots);
        let next = &next[..slots.min(next.len())].as_flattened();
        let next = &next[..next.len().min(NEXT_STATE_VALUES)];
        let sink = Sink {
            rows: &mut self.rows,
            at: (from - self.coordinates.start) as usize,
            skipped: (from - start) as usize,
            count,
            next,
            active: self.active,
            streams: self.streams,
            scale,
        };
        (state, sink)
    }
}

/// The place of one block in the row buffers; with no buffers, rows are made and dropped.
pub(crate) struct Sink<'t, 'a> {
    rows: &'t mut [Row<'a>],
    /// Where in the buffers the block's first coordinate in the range lies.
    at: usize,
    /// Coordinates of the block before the range, and the number in it.
    skipped: usize,
    count: usize,
    /// The beginning of the next block's state.
    next: &'t [f32],
    active: Active,
    streams: bool,
    scale: f32,
}

impl Sink<'_, '_> {
    /// The part of the next block's state that is to be fetched while row `row` of `count` is made.
    pub fn ahead(&self, row: usize, count: usize) -> &[f32] {
        let part = |row: usize| self.next.len() * row / count / 16 * 16;
        &self.next[part(row)..part(row + 1)]
    }

    /// Starts to fetch where row `row` will be written: stores that miss the caches would hold up what comes after.
    pub fn prefetch(&self, row: usize) {
        let end = self.at + self.count;
        let through_next_line = |out: &[f32]| out.len().min(end + 16);
        match self.rows.get(row) {
            // Whole lines go past the caches. Where a block ends within one, the next block has the rest of it.
            Some(Row::F32(out)) if self.streams => {
                let next = &out[end..through_next_line(out)];
                if !begins_line(next) {
                    self.active.prefetch(next);
                }
            }
            Some(Row::F32(out) | Row::Add(out)) => {
                self.active.prefetch(&out[self.at..through_next_line(out)]);
            }
            _ => {}
        }
    }

    /// Writes the part of row `row` that is in the range, multiplied by the scale, to its buffer.
    pub fn write(&mut self, row: usize, values: &Block) {
        let values = &values[self.skipped..self.skipped + self.count];
        let here = self.at..self.at + self.count;
        match self.rows.get_mut(row) {
            None => {}
            Some(Row::F32(out)) if self.streams => {
                self.active.stream_into(&mut out[here], values, self.scale)
            }
            Some(Row::F32(out)) => self.active.scale_into(&mut out[here], values, self.scale),
            Some(Row::Add(out)) => self.active.scale_add(&mut out[here], values, self.scale),
            Some(Row::Bf16(out)) => self.active.scale_bf16(&mut out[here], values, self.scale),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(coordinates: u64, slots: usize, rows: usize) -> bool {
        let range = 0..coordinates;
        let count = (blocks(&range).end) as usize * slots;
        let mut state = vec![crate::block::ZERO_BLOCK; count];
        let mut buffers = vec![vec![0f32; coordinates as usize]; rows];
        let rows = buffers.iter_mut().map(|row| Row::F32(row)).collect();
        tasks(&range, slots, &mut state, rows, Active::best(), 2).iter().all(|task| task.streams)
    }

    /// `long_rows_have_the_bits_of_short_ones` in tests/exact.rs rests on it.
    #[test]
    fn a_call_that_touches_much_goes_past_the_caches() {
        assert!(streams(1_500_037, 0, 3) && streams(1_500_037, 2, 3) && streams(1 << 20, 16, 1));
        assert!(!streams(99_991, 0, 3) && !streams(99_991, 2, 3) && !streams(1 << 20, 2, 1));
        assert!(!streams(1 << 20, 17, 8));
    }
}
