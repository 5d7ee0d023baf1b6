//! Where a row goes.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, available_parallelism, scope};
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
    asked: Instant,
    /// Nanoseconds until the row was here; left alone where it comes right into a buffer.
    waited: &'a AtomicU64,
}

impl<'a> Sink<'a> {
    /// For a row that is asked for now.
    pub fn new(out: Out<'a>, waited: &'a AtomicU64) -> Self {
        Self { out, asked: Instant::now(), waited }
    }

    /// `row` has all pieces.
    pub fn put(self, row: &[f32]) {
        self.waited.store(self.asked.elapsed().as_nanos() as u64, Ordering::Relaxed);
        match self.out {
            Out::Copy(out) => moved(vec![(out, row)], &|out, row| out.copy_from_slice(row)),
            Out::Add(pieces, by) => {
                let rows = pieces.into_iter().map(|(start, out)| {
                    let row = &row[start..start + out.len()];
                    (out, row)
                });
                moved(rows.collect(), &|out, row| add(out, row, by));
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

type Pair<'a> = (&'a mut [f32], &'a [f32]);

/// All of them by `put`, in shares: on threads that end with it, since those of a pool are not there after a fork.
fn moved(pairs: Vec<Pair<'_>>, put: &(impl Fn(&mut [f32], &[f32]) + Sync)) {
    let values: usize = pairs.iter().map(|(out, _)| out.len()).sum();
    let threads = if values < 2 * SHARE { 1 } else { (values / SHARE).min(most_threads()) };
    if threads < 2 {
        return pairs.into_iter().for_each(|(out, row)| put(out, row));
    }
    let mut shares = shares(pairs, values.div_ceil(threads));
    let mine = shares.pop().unwrap_or_default();
    scope(|scope| {
        for share in shares {
            // Handed over to a thread once there is one; where there is none, it is done here.
            let (give, take) = std::sync::mpsc::sync_channel::<Vec<Pair<'_>>>(1);
            let all = move || take.into_iter().flatten().for_each(|(out, row)| put(out, row));
            match Builder::new().spawn_scoped(scope, all) {
                Ok(_) => _ = give.send(share),
                Err(_) => share.into_iter().for_each(|(out, row)| put(out, row)),
            }
        }
        mine.into_iter().for_each(|(out, row)| put(out, row));
    });
}

fn most_threads() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS))
}

/// In order, each of `size` values but the last.
fn shares(pairs: Vec<Pair<'_>>, size: usize) -> Vec<Vec<Pair<'_>>> {
    let mut shares = vec![Vec::new()];
    let mut room = size;
    for (mut out, mut row) in pairs {
        while !out.is_empty() {
            if room == 0 {
                shares.push(Vec::new());
                room = size;
            }
            let here = room.min(out.len());
            let (first, rest) = out.split_at_mut(here);
            if let Some(share) = shares.last_mut() {
                share.push((first, &row[..here]));
            }
            (out, row, room) = (rest, &row[here..], room - here);
        }
    }
    shares
}
