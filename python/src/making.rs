//! Rows of one range, made in order and kept ahead of the training job.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use noise_kernel::{Buffer, Generator, KernelError};
use rayon::ThreadPool;

use crate::error::{Refused, Result};
use crate::wait::Stop;

/// Rows of state that a replay passes between two looks for signals.
const PIECE: u64 = 8;

pub struct Maker {
    /// Global coordinates.
    pub range: Range<u64>,
    /// Locked for as long as rows are made; before `made`, where both are.
    generator: Mutex<Generator>,
    /// Never locked for long: a row that is there is handed over while others are made.
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Made and not yet passed, in order.
    rows: VecDeque<(u64, Arc<Buffer>)>,
    /// Buffers of rows that were passed.
    spare: Vec<Buffer>,
}

enum Ready {
    Here(Arc<Buffer>),
    ToBeMade,
    TooFarBack,
}

impl Maker {
    pub fn new(generator: Generator) -> Self {
        Self { range: generator.range(), generator: Mutex::new(generator), made: Mutex::default() }
    }

    /// Hands over the values of a row in a range within the maker's own. False where the row lies too far back.
    pub fn row(
        &self,
        row: u64,
        range: Range<u64>,
        pool: &ThreadPool,
        stop: Stop,
        hand_over: impl FnOnce(&[f32]) -> Result<()>,
    ) -> Result<bool> {
        let ready = lock(&self.made).ready(row);
        let values = match ready {
            Ready::Here(values) => Some(values),
            Ready::TooFarBack => None,
            Ready::ToBeMade => self.make_now(row, pool, stop)?,
        };
        let Some(values) = values else { return Ok(false) };
        let start = (range.start - self.range.start) as usize;
        let end = (range.end - self.range.start) as usize;
        hand_over(&values[start..end])?;
        Ok(true)
    }

    /// Waits for rows that are being made; makes the row itself where it is not among them.
    fn make_now(&self, row: u64, pool: &ThreadPool, stop: Stop) -> Result<Option<Arc<Buffer>>> {
        let mut generator = lock(&self.generator);
        let ready = lock(&self.made).ready(row);
        match ready {
            Ready::Here(values) => return Ok(Some(values)),
            Ready::TooFarBack => return Ok(None),
            Ready::ToBeMade if row < generator.next_row() => return Ok(None),
            Ready::ToBeMade => {}
        }
        come_to(&mut generator, row, pool, stop)?;
        self.make(&mut generator, 1, pool)?;
        match lock(&self.made).ready(row) {
            Ready::Here(values) => Ok(Some(values)),
            _ => Err(Refused::Here("internal", "a row was not made".into())),
        }
    }

    /// Makes rows until `ahead` lie behind the one that was asked for last.
    fn fill(&self, ahead: &AtomicUsize, pool: &ThreadPool) -> Result<(), KernelError> {
        loop {
            let mut generator = lock(&self.generator);
            let there = lock(&self.made).rows.len();
            let wanted = (ahead.load(Ordering::Relaxed) + 1).saturating_sub(there) as u64;
            let count = wanted.min(generator.remaining());
            if count == 0 || there == 0 {
                return Ok(());
            }
            let most = generator.suggested_rows_at_once();
            self.make(&mut generator, (count as usize).min(most), pool)?;
        }
    }

    fn make(&self, generator: &mut Generator, count: usize, pool: &ThreadPool) -> Result<(), KernelError> {
        let first = generator.next_row();
        let width = (self.range.end - self.range.start) as usize;
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let spare = lock(&self.made).spare.pop();
            rows.push(spare.map_or_else(|| Buffer::zeroed("rows made ahead", width), Ok)?);
        }
        let mut out: Vec<&mut [f32]> = rows.iter_mut().map(|row| &mut row[..]).collect();
        pool.install(|| generator.generate(&mut out))?;
        lock(&self.made).rows.extend((first..).zip(rows.into_iter().map(Arc::new)));
        Ok(())
    }
}

impl Made {
    /// Lets go of the rows before `row`, and gives it if it is there.
    fn ready(&mut self, row: u64) -> Ready {
        if self.rows.front().is_some_and(|made| row < made.0) {
            return Ready::TooFarBack;
        }
        while self.rows.front().is_some_and(|made| made.0 < row) {
            // One that is being handed over still is released by its holder.
            self.spare.extend(self.rows.pop_front().and_then(|made| Arc::into_inner(made.1)));
        }
        self.rows.front().map_or(Ready::ToBeMade, |made| Ready::Here(made.1.clone()))
    }
}

/// Brings the state to `row`, in pieces.
fn come_to(generator: &mut Generator, row: u64, pool: &ThreadPool, stop: Stop) -> Result<()> {
    while generator.next_row() < row {
        let left = row - generator.next_row();
        let count = if generator.slots() == 0 { left } else { left.min(PIECE) };
        pool.install(|| generator.skip(count))?;
        stop()?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that fills makers while the training job computes. It ends when this is dropped.
pub struct Filling {
    pub rows: Arc<AtomicUsize>,
    fill: Sender<Weak<Maker>>,
}

impl Filling {
    pub fn start(rows: usize, pool: Arc<ThreadPool>) -> Result<Self> {
        let (fill, filled) = channel::<Weak<Maker>>();
        let rows = Arc::new(AtomicUsize::new(rows));
        let ahead = rows.clone();
        let run = move || {
            for maker in filled {
                // Without memory for rows ahead, rows are made when they are asked for.
                let _ = maker.upgrade().map(|maker| maker.fill(&ahead, &pool));
            }
        };
        let started = std::thread::Builder::new().name("rustle-ahead".into()).spawn(run);
        started.map_err(|error| Refused::Here("internal", format!("no thread: {error}")))?;
        Ok(Self { rows, fill })
    }

    pub fn fill(&self, maker: &Arc<Maker>) {
        // A thread that is gone fills nothing; rows are made when they are asked for.
        let _ = self.fill.send(Arc::downgrade(maker));
    }
}
