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
    making: Mutex<Making>,
}

struct Making {
    generator: Generator,
    /// Made and not yet passed, in order.
    made: VecDeque<(u64, Buffer)>,
    /// Buffers of rows that were passed.
    spare: Vec<Buffer>,
}

impl Maker {
    pub fn new(generator: Generator) -> Self {
        let range = generator.range();
        let making = Making { generator, made: VecDeque::new(), spare: Vec::new() };
        Self { range, making: Mutex::new(making) }
    }

    fn lock(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut making = self.lock();
        let first = making.made.front().map_or(making.generator.next_row(), |made| made.0);
        if row < first {
            return Ok(false);
        }
        making.pass(row);
        making.come_to(row, pool, stop)?;
        if making.made.is_empty() {
            making.make(1, pool)?;
        }
        let (start, end) =
            ((range.start - self.range.start) as usize, (range.end - self.range.start) as usize);
        let values = making.made.front().map(|(_, values)| &values[start..end]);
        hand_over(values.ok_or_else(|| Refused::Here("internal", "a row was not made".into()))?)?;
        Ok(true)
    }

    /// Makes rows until `ahead` lie behind the one that was asked for last.
    fn fill(&self, ahead: &AtomicUsize, pool: &ThreadPool) -> Result<(), KernelError> {
        loop {
            let mut making = self.lock();
            let wanted = (ahead.load(Ordering::Relaxed) + 1).saturating_sub(making.made.len()) as u64;
            let count = wanted.min(making.generator.remaining());
            if count == 0 || making.made.is_empty() {
                return Ok(());
            }
            let most = making.generator.suggested_rows_at_once();
            making.make((count as usize).min(most), pool)?;
        }
    }
}

impl Making {
    /// Lets go of the rows before `row`.
    fn pass(&mut self, row: u64) {
        while self.made.front().is_some_and(|made| made.0 < row) {
            self.spare.extend(self.made.pop_front().map(|made| made.1));
        }
    }

    /// Brings the state to `row` where no row is made, in pieces.
    fn come_to(&mut self, row: u64, pool: &ThreadPool, stop: Stop) -> Result<()> {
        while self.made.is_empty() && self.generator.next_row() < row {
            let left = row - self.generator.next_row();
            let count = if self.generator.slots() == 0 { left } else { left.min(PIECE) };
            pool.install(|| self.generator.skip(count))?;
            stop()?;
        }
        Ok(())
    }

    fn make(&mut self, count: usize, pool: &ThreadPool) -> Result<(), KernelError> {
        let (first, range) = (self.generator.next_row(), self.generator.range());
        let width = (range.end - range.start) as usize;
        let buffer = |spare: &mut Vec<Buffer>| match spare.pop() {
            Some(buffer) => Ok(buffer),
            None => Buffer::zeroed("rows made ahead", width),
        };
        let mut rows = (0..count).map(|_| buffer(&mut self.spare)).collect::<Result<Vec<_>, _>>()?;
        let mut out: Vec<&mut [f32]> = rows.iter_mut().map(|row| &mut row[..]).collect();
        pool.install(|| self.generator.generate(&mut out))?;
        self.made.extend((first..).zip(rows));
        Ok(())
    }
}

/// A thread that fills makers while the training job computes. It ends when this is dropped.
pub struct Ahead {
    pub rows: Arc<AtomicUsize>,
    fill: Sender<Weak<Maker>>,
}

impl Ahead {
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
