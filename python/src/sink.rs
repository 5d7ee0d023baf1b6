//! The destination of a row's values: memory of the caller.

use std::num::NonZero;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, available_parallelism, scope};
use std::time::Instant;

use numpy::PyReadwriteArray1;

use crate::error::{Refused, Result, not_contiguous};
use crate::sum_grid::SumRounding;

/// The fewest values for a thread of their own: starting one takes as long as moving a tenth of them.
const SHARE: usize = 1 << 20;
/// The most threads: more do not move memory faster.
const MAX_THREADS: usize = 8;

/// The use of a row's values in the requested range.
pub enum Out<'a> {
    /// They overwrite this memory.
    Copy(&'a mut [f32]),
    /// They overwrite this memory, in steps of the plan's grid.
    CopyIntegers(&'a mut [i32]),
    /// Divided by the number, they are added to pieces, each with its offset in the range.
    Add(Vec<(usize, &'a mut [f32])>, f32),
    /// The pieces are rounded to the plan's grid, and they are added there. The number is the range's first coordinate.
    Round(Vec<(usize, &'a mut [f32])>, SumRounding, u64),
    /// They are added to integers.
    AddIntegers(&'a mut [i64]),
}

/// Converts pieces with their first coordinates into pieces with their offsets in `range`.
///
/// # Errors
/// A piece with gaps, or one beyond the range.
pub fn targets<'a>(
    pieces: &'a mut [(u64, PyReadwriteArray1<'_, f32>)],
    range: Range<u64>,
) -> Result<Vec<(usize, &'a mut [f32])>> {
    let Range { start, end } = range;
    let target = |(first, piece): &'a mut (u64, PyReadwriteArray1<'_, f32>)| {
        let out = piece.as_slice_mut().map_err(not_contiguous)?;
        if *first < start || end.checked_sub(*first).is_none_or(|room| room < out.len() as u64) {
            let found = format!("{} values from coordinate {first} on", out.len());
            return Err(Refused::invalid("pieces", found, format!("within {start}..{end}")));
        }
        Ok(((*first - start) as usize, out))
    };
    pieces.iter_mut().map(target).collect()
}

/// The destination of one row, with the time that it was requested at.
pub struct Sink<'a> {
    /// The use of the values.
    pub out: Out<'a>,
    requested: Instant,
    /// Nanoseconds until the row arrived; unchanged where it arrives right in the caller's buffer.
    waited: &'a AtomicU64,
}

impl<'a> Sink<'a> {
    /// Creates the destination of a row that is requested now.
    pub fn new(out: Out<'a>, waited: &'a AtomicU64) -> Self {
        Self { out, requested: Instant::now(), waited }
    }

    /// Delivers the row: the words of the whole range, which are `f32`, or the bits of `i32` under a plan on a grid.
    pub fn put(self, row: &[f32]) {
        self.waited.store(self.requested.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let integers: &[i32] = bytemuck::cast_slice(row);
        match self.out {
            Out::Copy(out) => {
                move_values(vec![Pair::new(0, out, row)], &|_, out, row| out.copy_from_slice(row))
            }
            Out::CopyIntegers(out) => {
                move_values(vec![Pair::new(0, out, integers)], &|_, out, row| out.copy_from_slice(row));
            }
            Out::Add(pieces, by) => move_values(pairs(pieces, row), &|_, out, row| add(out, row, by)),
            Out::Round(pieces, rounding, first) => {
                let release = |at: usize, out: &mut [f32], row: &[i32]| {
                    rounding.release(first + at as u64, out, row);
                };
                move_values(pairs(pieces, integers), &release);
            }
            Out::AddIntegers(out) => {
                let add = |_, out: &mut [i64], row: &[i32]| {
                    out.iter_mut().zip(row).for_each(|(out, noise)| *out += i64::from(*noise));
                };
                move_values(vec![Pair::new(0, out, integers)], &add);
            }
        }
    }
}

fn add(out: &mut [f32], row: &[f32], by: f32) {
    match by {
        1.0 => out.iter_mut().zip(row).for_each(|(out, noise)| *out += noise),
        by => out.iter_mut().zip(row).for_each(|(out, noise)| *out += noise / by),
    }
}

fn pairs<'a, O, N>(pieces: Vec<(usize, &'a mut [O])>, row: &'a [N]) -> Vec<Pair<'a, O, N>> {
    let pair = |(start, out): (usize, &'a mut [O])| {
        let row = &row[start..start + out.len()];
        Pair { start, out, row }
    };
    pieces.into_iter().map(pair).collect()
}

/// Memory, and as many values for it.
struct Pair<'a, O, N> {
    /// The place of the first value in the range.
    start: usize,
    out: &'a mut [O],
    row: &'a [N],
}

impl<'a, O, N> Pair<'a, O, N> {
    fn new(start: usize, out: &'a mut [O], row: &'a [N]) -> Self {
        Self { start, out, row }
    }
}

/// Applies `put` to all pairs, in shares. Its threads end with it, since a fork would lack those of a pool.
fn move_values<O: Send, N: Sync>(pairs: Vec<Pair<'_, O, N>>, put: &(impl Fn(usize, &mut [O], &[N]) + Sync)) {
    let values: usize = pairs.iter().map(|pair| pair.out.len()).sum();
    let all = |pairs: Vec<Pair<'_, O, N>>| {
        pairs.into_iter().for_each(|Pair { start, out, row }| put(start, out, row));
    };
    let threads = if values < 2 * SHARE { 1 } else { (values / SHARE).min(max_threads()) };
    if threads < 2 {
        return all(pairs);
    }
    let mut shares = shares(pairs, values.div_ceil(threads));
    let mine = shares.pop().unwrap_or_default();
    scope(|scope| {
        for share in shares {
            // Sent to the thread once it has started; if it cannot start, this thread does the work.
            let (give, take) = std::sync::mpsc::sync_channel::<Vec<Pair<'_, O, N>>>(1);
            let work = move || take.into_iter().for_each(all);
            match Builder::new().spawn_scoped(scope, work) {
                Ok(_) => _ = give.send(share),
                Err(_) => all(share),
            }
        }
        all(mine);
    });
}

fn max_threads() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS))
}

/// Cuts the pairs into shares of `size` values, in order; the last may be smaller.
fn shares<'a, O, N>(pairs: Vec<Pair<'a, O, N>>, size: usize) -> Vec<Vec<Pair<'a, O, N>>> {
    let mut shares = vec![Vec::new()];
    let mut room = size;
    for Pair { mut start, mut out, mut row } in pairs {
        while !out.is_empty() {
            if room == 0 {
                shares.push(Vec::new());
                room = size;
            }
            let here = room.min(out.len());
            let (first, rest) = out.split_at_mut(here);
            if let Some(share) = shares.last_mut() {
                share.push(Pair::new(start, first, &row[..here]));
            }
            out = rest;
            row = &row[here..];
            start += here;
            room -= here;
        }
    }
    shares
}
