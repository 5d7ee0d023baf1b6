//! Rows of whole numbers for one range of coordinates, in order.

use super::call::Call;
use super::error::GridRowError;
use super::mechanism::GridMechanism;
use super::settle::{Fault, Faults};
use super::state::{GridElement, GridSnapshot, State};
use super::task::tasks;
use crate::parallel::on_own_threads;
use crate::range::check_range;
use crate::{KernelError, Stream};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes rows of exact noise on the grid one after another and keeps the state between them.
///
/// A row is what docs/grid-stream.md says of real numbers, whatever the instruction set, the rows made at once, ranges or
/// threads: an approximate value decides only where its error bound allows it.
pub struct GridGenerator {
    pub(super) stream: Stream,
    pub(super) mechanism: Arc<GridMechanism>,
    pub(super) range: Range<u64>,
    /// Coordinates of the range.
    width: usize,
    pub(super) next_row: u64,
    pub(super) state: State,
    /// The error that ended the rows.
    failed: Option<GridRowError>,
}

impl GridGenerator {
    /// Returns a generator before row 0. `range` counts global coordinates; `stream` is of [`GridMechanism::stream`], or of
    /// one key for all rows.
    ///
    /// # Errors
    /// [`KernelError`] for an empty range, or more state than the system has memory for.
    pub fn new(
        stream: Stream,
        mechanism: Arc<GridMechanism>,
        range: Range<u64>,
    ) -> Result<Self, KernelError> {
        let width = check_range(&range)?;
        let state = State::zeroed(&mechanism, &range)?;
        Ok(Self { stream, mechanism, range, width, next_row: 0, state, failed: None })
    }

    /// Returns a generator that continues from a saved state.
    ///
    /// # Errors
    /// [`GridRowError`] as of [`GridGenerator::new`], for a state of another type or length, and for one past the last row.
    pub fn restore(
        stream: Stream,
        mechanism: Arc<GridMechanism>,
        range: Range<u64>,
        snapshot: &GridSnapshot,
    ) -> Result<Self, GridRowError> {
        let iterations = mechanism.iterations();
        if snapshot.next_row > iterations {
            return Err(KernelError::RowBeyondIterations { row: snapshot.next_row, iterations }.into());
        }
        let mut generator = Self::new(stream, mechanism, range)?;
        generator.state.take_bytes(snapshot.element, &snapshot.bytes)?;
        generator.next_row = snapshot.next_row;
        Ok(generator)
    }

    /// Returns the state before [`GridGenerator::next_row`] as bytes.
    ///
    /// # Errors
    /// [`GridRowError::Failed`] after a row that failed: its state is of no row.
    pub fn snapshot(&self) -> Result<GridSnapshot, GridRowError> {
        self.check_sound()?;
        let bytes = self.state.to_bytes();
        Ok(GridSnapshot { next_row: self.next_row, element: self.state.element(), bytes })
    }

    /// Returns the row made next.
    pub fn next_row(&self) -> u64 {
        self.next_row
    }

    /// Returns the number of rows left to make.
    pub fn remaining(&self) -> u64 {
        self.mechanism.iterations() - self.next_row
    }

    /// Returns the global coordinates of the rows.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the mechanism.
    pub fn mechanism(&self) -> &GridMechanism {
        &self.mechanism
    }

    /// Returns the type of the values of the state.
    pub fn element(&self) -> GridElement {
        self.state.element()
    }

    /// Returns the bytes of all state.
    pub fn state_bytes(&self) -> usize {
        self.state.len() * self.state.element().bytes()
    }

    /// Makes the next `out.len()` rows, in parallel on the caller's rayon pool. Each buffer is as long as the range and is
    /// overwritten whole.
    ///
    /// # Errors
    /// [`GridRowError::Argument`], before anything is changed, for rows past the last or a buffer of another length. After
    /// [`GridRowError::RowOutOfRange`] and [`GridRowError::Undecided`], whose chance is negligible for a plan that was
    /// checked, the generator makes no more rows.
    pub fn generate(&mut self, out: &mut [&mut [i32]]) -> Result<(), GridRowError> {
        if let Some((index, row)) = out.iter().enumerate().find(|(_, row)| row.len() != self.width) {
            return Err(KernelError::BufferLength { index, got: row.len(), expected: self.width }.into());
        }
        self.check_rows(out.len() as u64)?;
        self.advance(out.len(), out.iter_mut().map(|row| &mut **row).collect())
    }

    /// Advances by `rows` rows without output, as in a replay.
    ///
    /// # Errors
    /// Fails as [`GridGenerator::generate`] does.
    pub fn skip(&mut self, rows: u64) -> Result<(), GridRowError> {
        self.check_rows(rows)?;
        if self.mechanism.slots() == 0 {
            self.next_row += rows;
            return Ok(());
        }
        let mut left = rows;
        while left > 0 {
            let count = left.min(8);
            self.advance(count as usize, Vec::new())?;
            left -= count;
        }
        Ok(())
    }

    fn check_sound(&self) -> Result<(), GridRowError> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(GridRowError::Failed(Box::new(error.clone()))),
        }
    }

    fn check_rows(&self, rows: u64) -> Result<(), GridRowError> {
        self.check_sound()?;
        if rows <= self.remaining() {
            return Ok(());
        }
        let iterations = self.mechanism.iterations();
        Err(KernelError::RowBeyondIterations { row: iterations, iterations }.into())
    }

    /// `count` rows, written to `rows` or dropped where there are none.
    fn advance(&mut self, count: usize, rows: Vec<&mut [i32]>) -> Result<(), GridRowError> {
        if count == 0 {
            return Ok(());
        }
        let call = Call::new(&self.stream, &self.mechanism, self.next_row, count);
        let slots = self.mechanism.slots();
        let threads = rayon::current_num_threads();
        let tasks = tasks(&self.range, slots, self.state.whole(), rows, threads);
        // The first of all faults, so that the error too is the same however the work is shared.
        let first = Mutex::new(Faults::default());
        on_own_threads(
            tasks,
            || call.scratch(),
            |scratch, task| {
                for block in task.blocks.clone() {
                    if let Err(fault) = call.run(block, task.block(block), scratch) {
                        note(&first, fault);
                    }
                }
            },
        );
        if let Err(fault) = first.into_inner().unwrap_or_else(PoisonError::into_inner).result() {
            let error = error_of(fault);
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.next_row += count as u64;
        Ok(())
    }
}

fn note(first: &Mutex<Faults>, fault: Fault) {
    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
    first.note(fault);
}

fn error_of(fault: Fault) -> GridRowError {
    let Fault { row, coordinate, value } = fault;
    match value {
        Some(value) => GridRowError::RowOutOfRange { row, coordinate, value },
        None => GridRowError::Undecided { row, coordinate },
    }
}
