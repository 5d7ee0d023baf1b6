//! Rows of σζ·C⁻¹Z for one range of coordinates, in order.

mod block_copy;

use crate::block::{BLOCK, ZERO_BLOCK};
use crate::history::{History, PastNormals};
use crate::mechanism::Call;
use crate::memory::Buffer;
use crate::output::Row;
use crate::parallel::{on_own_threads, tasks};
use crate::range::{blocks, check_range, state_length};
use crate::tile::Ring;
use crate::validate::{check_coefficients, check_scale, slots};
use crate::{KernelError, Stream};
use plan::Coefficients;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Makes rows one after another and keeps the state between them.
///
/// State is `[block][slot][512]` f32, for banded mechanisms `[block][quarter][slot][128]`, with blocks in order of
/// their global number, so that the states of ranges that meet at a multiple of [`BLOCK`] are joined and cut as plain
/// slices. It is a function of branch key, coefficients and next row alone; slots not yet written are zero. Slots: BLT,
/// the d buffers; banded, ŷ of row t in slot t % min(p−1, n−1); tree, one for each level, all zero between trees;
/// others, none.
pub struct Generator {
    stream: Stream,
    coefficients: Arc<Coefficients>,
    iterations: u64,
    scale: f32,
    range: Range<u64>,
    /// Coordinates of the range.
    width: usize,
    slots: usize,
    next_row: u64,
    state: Buffer,
    past: PastNormals,
}

impl Generator {
    /// Returns a generator before row 0 of a mechanism with `iterations` rows. `scale` is σζ: served rows are ẑ·scale.
    /// `range` counts global coordinates.
    ///
    /// # Errors
    /// [`KernelError`] for coefficients that are not finite or do not fit each other or `iterations`, an empty range,
    /// a scale that is not a positive finite number, or more state than the system has memory for.
    pub fn new(
        stream: Stream,
        coefficients: Arc<Coefficients>,
        iterations: u64,
        scale: f32,
        range: Range<u64>,
    ) -> Result<Self, KernelError> {
        check_coefficients(&coefficients, iterations)?;
        check_scale(scale)?;
        let width = check_range(&range)?;
        let slots = slots(&coefficients, iterations);
        let state = Buffer::zeroed("the state of this range", state_length(&range, slots)?)?;
        let past = PastNormals { slots: 0, values: Buffer::zeroed("past normals", 0)?, next_row: 0 };
        Ok(Self { stream, coefficients, iterations, scale, range, width, slots, next_row: 0, state, past })
    }

    /// Returns a generator that continues before row `next_row` with a state saved by [`Generator::state`], given as
    /// its parts in order.
    ///
    /// # Errors
    /// Fails as [`Generator::new`] does, for a state of another length, and for `next_row` past `iterations`.
    pub fn restore(
        stream: Stream,
        coefficients: Arc<Coefficients>,
        iterations: u64,
        scale: f32,
        range: Range<u64>,
        next_row: u64,
        state: &[&[f32]],
    ) -> Result<Self, KernelError> {
        let mut generator = Self::new(stream, coefficients, iterations, scale, range)?;
        let got = state.iter().map(|part| part.len()).sum();
        let expected = generator.state.len();
        if got != expected {
            return Err(KernelError::StateLength { got, expected });
        }
        if next_row > iterations {
            return Err(KernelError::RowBeyondIterations { row: next_row, iterations });
        }
        let mut rest = &mut generator.state[..];
        for part in state {
            let (now, later) = rest.split_at_mut(part.len());
            now.copy_from_slice(part);
            rest = later;
        }
        generator.next_row = next_row;
        Ok(generator)
    }

    /// Returns the same generator with another treatment of past normals, which mechanisms that are banded in C⁻¹
    /// look back at; by default they are drawn again ([`History::Redraw`]). It changes no bit. The first
    /// [`History::Auto`] of a process measures for some 20 ms.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`] for more past normals than the system has memory for.
    pub fn with_history(mut self, history: History) -> Result<Self, KernelError> {
        let blocks = blocks(&self.range);
        let coordinates = (blocks.end - blocks.start) * BLOCK as u64;
        let at_once = self.suggested_rows_at_once() as u64;
        let slots = history.slots(&self.stream, &self.coefficients, self.iterations, coordinates, at_once);
        let values = Buffer::zeroed("past normals", state_length(&self.range, slots)?)?;
        self.past = PastNormals { slots, values, next_row: 0 };
        Ok(self)
    }

    /// Returns the row made next.
    pub fn next_row(&self) -> u64 {
        self.next_row
    }

    /// Returns the number of rows left to make.
    pub fn remaining(&self) -> u64 {
        self.iterations - self.next_row
    }

    /// Returns the global coordinates of the rows.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns σζ.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Changes σζ from the next row on: where a clip norm adapts, at restart rounds only.
    ///
    /// # Errors
    /// [`KernelError::Scale`] for anything but a positive finite number.
    pub fn set_scale(&mut self, scale: f32) -> Result<(), KernelError> {
        check_scale(scale)?;
        self.scale = scale;
        Ok(())
    }

    /// Returns the number of rows of state for each coordinate.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the state before [`Generator::next_row`].
    pub fn state(&self) -> &[f32] {
        &self.state
    }

    /// Returns a copy of [`Generator::state`], made in parallel on the caller's rayon pool: rows may be made while it
    /// is used.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`] for more than the system has memory for.
    pub fn copy_state(&self) -> Result<Buffer, KernelError> {
        let mut copy = Buffer::zeroed("a copy of the state", self.state.len())?;
        let piece = self.state.len().div_ceil(rayon::current_num_threads()).max(BLOCK);
        let pieces = copy.par_chunks_mut(piece).zip(self.state.par_chunks(piece));
        pieces.for_each(|(copy, state)| copy.copy_from_slice(state));
        Ok(copy)
    }

    /// Returns the values of state for each block of 512 coordinates that the range touches.
    pub fn block_state_len(&self) -> usize {
        self.slots * BLOCK
    }

    /// Returns the bytes of all state.
    pub fn state_bytes(&self) -> usize {
        size_of_val(&self.state[..])
    }

    /// Returns the bytes of past normals kept beside the state.
    pub fn history_bytes(&self) -> usize {
        size_of_val(&self.past.values[..])
    }

    /// Returns the number of rows to make in one call. Measured by mechanism: more rows gained nothing that was worth
    /// their memory.
    pub fn suggested_rows_at_once(&self) -> usize {
        match &*self.coefficients {
            // Its past is long, and shared by the rows made together.
            Coefficients::Banded(banded) if banded.bands >= 32 => 16,
            Coefficients::Inverse(_) => 16,
            _ => 8,
        }
    }

    /// Makes the next `out.len()` rows, in parallel on the caller's rayon pool. Each buffer is as long as the
    /// range and is overwritten whole.
    ///
    /// # Errors
    /// [`KernelError`], before anything is changed, for rows past the last or a buffer of another length.
    pub fn generate(&mut self, out: &mut [&mut [f32]]) -> Result<(), KernelError> {
        self.generate_rows(out.iter_mut().map(|row| Row::F32(row)).collect())
    }

    /// Makes the next `out.len()` rows into buffers of any kind.
    ///
    /// # Errors
    /// Fails as [`Generator::generate`] does.
    pub fn generate_rows(&mut self, out: Vec<Row<'_>>) -> Result<(), KernelError> {
        if let Some((index, row)) = out.iter().enumerate().find(|(_, row)| row.len() != self.width) {
            return Err(KernelError::BufferLength { index, got: row.len(), expected: self.width });
        }
        let count = self.check_rows(out.len() as u64)?;
        self.advance(count, out);
        Ok(())
    }

    /// Advances by `rows` rows without output, as in a replay.
    ///
    /// # Errors
    /// [`KernelError::RowBeyondIterations`], before anything is changed, for rows past the last.
    pub fn skip(&mut self, rows: u64) -> Result<(), KernelError> {
        self.check_rows(rows)?;
        let mut left = rows;
        if self.slots == 0 {
            self.next_row += left;
            left = 0;
        }
        while left > 0 {
            let count = left.min(self.suggested_rows_at_once() as u64);
            self.advance(count as usize, Vec::new());
            left -= count;
        }
        Ok(())
    }

    fn check_rows(&self, rows: u64) -> Result<usize, KernelError> {
        let beyond = KernelError::RowBeyondIterations { row: self.iterations, iterations: self.iterations };
        if rows > self.remaining() {
            return Err(beyond);
        }
        // Rows for which a caller has buffers always fit; a skip is cut into small counts.
        Ok(usize::try_from(rows).unwrap_or(usize::MAX))
    }

    /// `count` rows, written to `rows` or dropped where there are none.
    fn advance(&mut self, count: usize, rows: Vec<Row<'_>>) {
        if count == 0 {
            return;
        }
        self.draw_past();
        let kept = self.past.slots > 0;
        let call = Call::new(&self.stream, &self.coefficients, self.next_row, count, kept);
        let scale = self.scale;
        let (values, slots) =
            if kept { (&mut self.past.values, self.past.slots) } else { (&mut self.state, self.slots) };
        let (state, _) = values.as_chunks_mut::<BLOCK>();
        let tasks =
            tasks(&self.range, slots, state, rows, self.stream.active(), rayon::current_num_threads());
        on_own_threads(
            tasks,
            || call.scratch(),
            |scratch, task| {
                for block in task.blocks.clone() {
                    let (state, mut sink) = task.block(block, slots, scale);
                    call.run(block, state, scratch, &mut sink);
                }
            },
        );
        self.next_row += count as u64;
        self.past.next_row = self.next_row;
    }

    /// Draws the past normals that are missing after a restore, or where rows were skipped.
    fn draw_past(&mut self) {
        let PastNormals { slots, values, next_row } = &mut self.past;
        let slots = *slots;
        let first = self.next_row.saturating_sub(slots as u64);
        if slots == 0 || *next_row == self.next_row {
            return;
        }
        let (state, _) = values.as_chunks_mut::<BLOCK>();
        let stream = &self.stream;
        let rows = first..self.next_row;
        let tasks =
            tasks(&self.range, slots, state, Vec::new(), stream.active(), rayon::current_num_threads());
        on_own_threads(
            tasks,
            || (),
            |(), task| {
                let blocks = task.blocks.clone().zip(task.state.chunks_exact_mut(slots));
                for (block, state) in blocks {
                    let mut ring = Ring::new(state);
                    for row in rows.clone() {
                        let mut normals = [ZERO_BLOCK];
                        stream.fill_block(row, block, &mut normals[0]);
                        ring.keep(row, &normals);
                    }
                }
            },
        );
        *next_row = self.next_row;
    }
}
