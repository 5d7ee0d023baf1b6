//! Rows of one range, produced in order and ahead of the training job.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use noise_kernel::grid::GridRowError;
use noise_kernel::{Buffer, Recheck, RowGenerator};
use rayon::ThreadPool;

use crate::error::{Refused, Result};
use crate::wait::Stop;

/// Rows that a replay advances between two checks for signals.
const ROWS_BETWEEN_SIGNALS: u64 = 8;

/// Produces the rows of one range.
pub struct RowProducer {
    /// The global coordinates.
    pub range: Range<u64>,
    /// Makes a sample of the rows again.
    recheck: Arc<Recheck>,
    /// Locked while rows are produced; before `ready`, where both are.
    generator: Mutex<RowGenerator>,
    /// Never locked for long: a finished row is delivered while others are produced.
    ready: Mutex<ReadyRows>,
}

#[derive(Default)]
struct ReadyRows {
    /// Rows that were produced and not passed yet, in order.
    rows: VecDeque<(u64, Arc<Buffer>)>,
    /// Memory of rows that were passed.
    spare: Vec<Buffer>,
}

enum Lookup {
    Ready(Arc<Buffer>),
    NotYetProduced,
    Passed,
}

impl RowProducer {
    /// Creates a producer of the generator's range.
    pub fn new(generator: RowGenerator, recheck: Arc<Recheck>) -> Self {
        let range = generator.range();
        Self { range, recheck, generator: Mutex::new(generator), ready: Mutex::default() }
    }

    /// Calls `deliver` with the words of a row in a range within the producer's own. Returns false where the producer
    /// is past the row.
    pub fn row(
        &self,
        row: u64,
        range: Range<u64>,
        pool: &ThreadPool,
        stop: Stop,
        deliver: impl FnOnce(&[f32]) -> Result<()>,
    ) -> Result<bool> {
        let found = lock(&self.ready).look_up(row);
        let values = match found {
            Lookup::Ready(values) => Some(values),
            Lookup::Passed => None,
            Lookup::NotYetProduced => self.produce_now(row, pool, stop)?,
        };
        let Some(values) = values else { return Ok(false) };
        let start = (range.start - self.range.start) as usize;
        let end = (range.end - self.range.start) as usize;
        // After a wrong row, rows that were made before it are no better.
        self.recheck.ensure_sound()?;
        deliver(&values[start..end])?;
        Ok(true)
    }

    /// Waits for rows that are being produced; produces the row itself where it is not among them.
    fn produce_now(&self, row: u64, pool: &ThreadPool, stop: Stop) -> Result<Option<Arc<Buffer>>> {
        let mut generator = lock(&self.generator);
        let found = lock(&self.ready).look_up(row);
        match found {
            Lookup::Ready(values) => return Ok(Some(values)),
            Lookup::Passed => return Ok(None),
            Lookup::NotYetProduced if row < generator.next_row() => return Ok(None),
            Lookup::NotYetProduced => {}
        }
        advance_to(&mut generator, row, pool, stop)?;
        self.produce(&mut generator, 1, pool)?;
        match lock(&self.ready).look_up(row) {
            Lookup::Ready(values) => Ok(Some(values)),
            _ => Err(Refused::Here("internal", "a row was not produced".into())),
        }
    }

    /// Produces rows until `ahead` lie beyond the one that was requested last.
    fn fill(&self, ahead: &AtomicUsize, pool: &ThreadPool) -> Result<(), GridRowError> {
        loop {
            let mut generator = lock(&self.generator);
            let ready = lock(&self.ready).rows.len();
            let wanted = (ahead.load(Ordering::Relaxed) + 1).saturating_sub(ready) as u64;
            let count = wanted.min(generator.remaining());
            if count == 0 || ready == 0 {
                return Ok(());
            }
            let most = generator.suggested_rows_at_once();
            self.produce(&mut generator, (count as usize).min(most), pool)?;
        }
    }

    fn produce(
        &self,
        generator: &mut RowGenerator,
        count: usize,
        pool: &ThreadPool,
    ) -> Result<(), GridRowError> {
        let first = generator.next_row();
        let width = (self.range.end - self.range.start) as usize;
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let spare = lock(&self.ready).spare.pop();
            rows.push(spare.map_or_else(|| Buffer::zeroed("rows produced ahead", width), Ok)?);
        }
        let mut out: Vec<&mut [f32]> = rows.iter_mut().map(|row| &mut row[..]).collect();
        pool.install(|| self.generate_checked(generator, &mut out))?;
        lock(&self.ready).rows.extend((first..).zip(rows.into_iter().map(Arc::new)));
        Ok(())
    }

    fn generate_checked(
        &self,
        generator: &mut RowGenerator,
        rows: &mut [&mut [f32]],
    ) -> Result<(), GridRowError> {
        let sample = self.recheck.sample(generator)?;
        generator.generate(rows)?;
        let rows: Vec<&[f32]> = rows.iter().map(|row| &**row).collect();
        Ok(self.recheck.check(sample, generator, &rows)?)
    }
}

impl ReadyRows {
    /// Drops the rows before `row`, and returns it if it is ready.
    fn look_up(&mut self, row: u64) -> Lookup {
        if self.rows.front().is_some_and(|(first, _)| row < *first) {
            return Lookup::Passed;
        }
        while self.rows.front().is_some_and(|(first, _)| *first < row) {
            // A row that is still being delivered is freed by its reader.
            self.spare.extend(self.rows.pop_front().and_then(|(_, values)| Arc::into_inner(values)));
        }
        self.rows.front().map_or(Lookup::NotYetProduced, |(_, values)| Lookup::Ready(values.clone()))
    }
}

/// Advances the state to `row`, in pieces.
fn advance_to(generator: &mut RowGenerator, row: u64, pool: &ThreadPool, stop: Stop) -> Result<()> {
    while generator.next_row() < row {
        let left = row - generator.next_row();
        let count = if generator.slots() == 0 { left } else { left.min(ROWS_BETWEEN_SIGNALS) };
        pool.install(|| generator.skip(count))?;
        stop()?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that fills producers while the training job computes. It ends when this is dropped.
pub struct PrefetchThread {
    /// Rows to keep produced ahead.
    pub ahead: Arc<AtomicUsize>,
    requests: Sender<Weak<RowProducer>>,
}

impl PrefetchThread {
    /// Starts the thread, with `rows` to keep produced ahead.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(rows: usize, pool: Arc<ThreadPool>) -> Result<Self> {
        let (requests, requested) = channel::<Weak<RowProducer>>();
        let ahead = Arc::new(AtomicUsize::new(rows));
        let target = ahead.clone();
        let run = move || {
            for producer in requested {
                // Without memory for rows ahead, rows are produced when they are requested.
                let _ = producer.upgrade().map(|producer| producer.fill(&target, &pool));
            }
        };
        let started = std::thread::Builder::new().name("rustle-ahead".into()).spawn(run);
        started.map_err(|error| Refused::Here("internal", format!("no thread: {error}")))?;
        Ok(Self { ahead, requests })
    }

    /// Requests that the producer be filled.
    pub fn fill(&self, producer: &Arc<RowProducer>) {
        // Without the thread, rows are produced when they are requested.
        let _ = self.requests.send(Arc::downgrade(producer));
    }
}
