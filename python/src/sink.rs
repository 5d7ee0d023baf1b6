//! Where a row goes.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::Instant;

/// Values that a thread moves at least: starting one takes as long as a tenth of that.
const SHARE: usize = 1 << 20;
/// More do not move memory faster.
const MOST_THREADS: usize = 8;

/// What is done with a row's f32 values, all of them of the range that was asked for.
pub enum Out<'a> {
    /// Overwritten with the row.
    Copy(&'a mut [f32]),
    /// The row divided by a number is added to pieces, each with its place in the row.
    Add(Vec<(usize, &'a mut [f32])>, f32),
}

pub struct Sink<'a> {
    pub out: Out<'a>,
    /// Nanoseconds spent on putting rows.
    putting: &'a AtomicU64,
}

impl<'a> Sink<'a> {
    pub fn new(out: Out<'a>, putting: &'a AtomicU64) -> Self {
        Self { out, putting }
    }

    /// `row` has all pieces.
    pub fn put(self, row: &[f32]) {
        let begun = Instant::now();
        match self.out {
            Out::Copy(out) => shared(out, row, &|out, row| out.copy_from_slice(row)),
            Out::Add(pieces, by) => {
                for (start, out) in pieces {
                    let row = &row[start..start + out.len()];
                    shared(out, row, &|out, row| add(out, row, by));
                }
            }
        }
        self.putting.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

fn add(out: &mut [f32], row: &[f32], by: f32) {
    match by {
        1.0 => out.iter_mut().zip(row).for_each(|(out, noise)| *out += noise),
        by => out.iter_mut().zip(row).for_each(|(out, noise)| *out += noise / by),
    }
}

/// All of it by `put`, in shares: on threads that end with it, since those of a pool are not there after a fork.
fn shared(out: &mut [f32], row: &[f32], put: &(impl Fn(&mut [f32], &[f32]) + Sync)) {
    let threads = (out.len() / SHARE).min(MOST_THREADS);
    let threads = threads.min(available_parallelism().map_or(1, NonZero::get)).max(1);
    let share = out.len().div_ceil(threads).max(1);
    let mut shares = out.chunks_mut(share).zip(row.chunks(share));
    let mine = shares.next();
    scope(|threads| {
        shares.for_each(|(out, row)| _ = threads.spawn(move || put(out, row)));
        mine.into_iter().for_each(|(out, row)| put(out, row));
    });
}
