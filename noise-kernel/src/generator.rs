//! Rows of σζ·C⁻¹Z for one range of coordinates, in order.

use crate::block::{BLOCK, Block};
use crate::check::{check, slots};
use crate::mechanism::Call;
use crate::parallel::{blocks, check_range, tiles};
use crate::{KernelError, Stream};
use plan::Coefficients;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Makes rows one after another and keeps the state between them.
///
/// State is `[block][slot][512]` f32 with blocks in order of their global number, so that the states of ranges
/// that meet at a multiple of [`BLOCK`] are joined and cut as plain slices. It is a function of branch key,
/// coefficients and next row alone; slots not yet written are zero. Slots: BLT, the d buffers; banded, ŷ of row
/// t in slot t % min(p−1, n−1); tree, one for each level, all zero between trees; others, none.
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
    state: Vec<f32>,
}

impl Generator {
    /// A generator before row 0 of a mechanism with `iterations` rows. `scale`: σζ, served rows are ẑ·scale.
    /// `range`: global coordinates.
    /// Errors: coefficients that are not finite or do not fit each other or `iterations`; an empty range;
    /// a scale that is not a positive finite number; a state too large to address.
    pub fn new(
        stream: Stream,
        coefficients: Arc<Coefficients>,
        iterations: u64,
        scale: f32,
        range: Range<u64>,
    ) -> Result<Self, KernelError> {
        check(&coefficients, iterations)?;
        check_scale(scale)?;
        let width = check_range(&range)?;
        let slots = slots(&coefficients, iterations);
        let state = vec![0.0; state_length(&range, slots)?];
        Ok(Self { stream, coefficients, iterations, scale, range, width, slots, next_row: 0, state })
    }

    /// A generator that goes on before row `next_row` with a state saved by [`Generator::state`].
    /// Errors: those of [`Generator::new`]; a state of another length; `next_row` past `iterations`.
    pub fn restore(
        stream: Stream,
        coefficients: Arc<Coefficients>,
        iterations: u64,
        scale: f32,
        range: Range<u64>,
        next_row: u64,
        state: Vec<f32>,
    ) -> Result<Self, KernelError> {
        check(&coefficients, iterations)?;
        check_scale(scale)?;
        let width = check_range(&range)?;
        let slots = slots(&coefficients, iterations);
        let expected = state_length(&range, slots)?;
        if state.len() != expected {
            return Err(KernelError::StateLength { got: state.len(), expected });
        }
        if next_row > iterations {
            return Err(KernelError::RowBeyondIterations { row: next_row, iterations });
        }
        Ok(Self { stream, coefficients, iterations, scale, range, width, slots, next_row, state })
    }

    /// The row made next.
    pub fn next_row(&self) -> u64 {
        self.next_row
    }

    /// Rows left to make.
    pub fn remaining(&self) -> u64 {
        self.iterations - self.next_row
    }

    /// Global coordinates of the rows.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// σζ.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Changes σζ from the next row on: where a clip norm adapts, at restart rounds only.
    /// Error: not a positive finite number.
    pub fn set_scale(&mut self, scale: f32) -> Result<(), KernelError> {
        check_scale(scale)?;
        self.scale = scale;
        Ok(())
    }

    /// Rows of state for each coordinate.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The state before [`Generator::next_row`]: `[block][slot][512]`.
    pub fn state(&self) -> &[f32] {
        &self.state
    }

    /// Takes the state out without a copy.
    pub fn into_state(self) -> Vec<f32> {
        self.state
    }

    /// Values of state for each block of 512 coordinates that the range touches.
    pub fn block_state_len(&self) -> usize {
        self.slots * BLOCK
    }

    /// Bytes of all state.
    pub fn state_bytes(&self) -> usize {
        size_of_val(self.state.as_slice())
    }

    /// How many rows to make in one call so that reading and writing state, or drawing rows again, costs
    /// little beside the rows themselves.
    pub fn suggested_rows_at_once(&self) -> usize {
        let stateless = matches!(*self.coefficients, Coefficients::Identity);
        if stateless { 8 } else { 16 }
    }

    /// Makes the next `out.len()` rows, in parallel on the caller's rayon pool. Each buffer is as long as the
    /// range and is overwritten whole.
    /// Errors, before anything is changed: rows past the last; a buffer of another length.
    pub fn generate(&mut self, out: &mut [&mut [f32]]) -> Result<(), KernelError> {
        let wrong = out.iter().position(|row| row.len() != self.width);
        if let Some(index) = wrong {
            let got = out[index].len();
            return Err(KernelError::BufferLength { index, got, expected: self.width });
        }
        let count = self.check_rows(out.len() as u64)?;
        self.advance(count, out.iter_mut().map(|row| &mut **row).collect());
        Ok(())
    }

    /// Moves on by `rows` rows without output, as in a replay.
    /// Error, before anything is changed: rows past the last.
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
        // Rows a caller has buffers for always fit; a skip is cut into small counts.
        Ok(usize::try_from(rows).unwrap_or(usize::MAX))
    }

    /// `count` rows, written to `rows` or dropped where there are none.
    fn advance(&mut self, count: usize, rows: Vec<&mut [f32]>) {
        if count == 0 {
            return;
        }
        let call = Call::new(&self.stream, &self.coefficients, self.scale, self.next_row, count);
        let (state, _) = self.state.as_chunks_mut::<BLOCK>();
        let slots = self.slots;
        let tiles = tiles(&self.range, slots, state, rows, rayon::current_num_threads());
        tiles.into_par_iter().for_each_init(
            || call.scratch(),
            |scratch, mut tile| {
                for block in tile.blocks.clone() {
                    let (state, mut sink) = tile.block(block, slots);
                    call.run(block, state, scratch, &mut sink);
                }
            },
        );
        self.next_row += count as u64;
    }
}

pub(crate) fn check_scale(scale: f32) -> Result<(), KernelError> {
    if scale.is_finite() && scale > 0.0 { Ok(()) } else { Err(KernelError::Scale { got: scale }) }
}

fn state_length(range: &Range<u64>, slots: usize) -> Result<usize, KernelError> {
    let blocks = blocks(range);
    let bytes = u128::from(blocks.end - blocks.start) * slots as u128 * size_of::<Block>() as u128;
    match isize::try_from(bytes) {
        Ok(bytes) => Ok(bytes as usize / size_of::<f32>()),
        Err(_) => Err(KernelError::TooLarge { what: "the state of this range", bytes }),
    }
}
