//! One generator for rows of floats and rows of integers on a grid, for whatever keeps, stores and moves either.
//!
//! Rows and state are words of four bytes, typed `f32`. On a grid a word holds the bits of a row's `i32`, of state the bits
//! of an `i32` or of half a binary64: moving a word keeps its bits, and nothing computes with it.

use crate::grid::{GridElement, GridFamily, GridGenerator, GridMechanism, GridRowError, GridSnapshot};
use crate::{BLOCK, Backend, Buffer, Generator, History, KernelError, Stream};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A generator of rows, and of the state between them.
pub enum RowGenerator {
    /// Rows of `f32`.
    Floats(Generator),
    /// Rows of integers on a grid.
    Integers(GridGenerator),
}

/// A copy of state, in words.
pub enum StateCopy {
    /// Of a generator of floats.
    Buffer(Buffer),
    /// Of a generator of integers.
    Words(Vec<f32>),
}

impl StateCopy {
    /// Returns the words.
    pub fn words(&self) -> &[f32] {
        match self {
            Self::Buffer(buffer) => buffer,
            Self::Words(words) => words,
        }
    }
}

impl RowGenerator {
    /// Returns a generator of integers that continues before row `next_row` with the words of the state's pieces in order.
    ///
    /// # Errors
    /// Those of [`GridGenerator::restore`].
    pub fn restore_integers(
        stream: Stream,
        mechanism: Arc<GridMechanism>,
        range: Range<u64>,
        next_row: u64,
        state: &[&[f32]],
    ) -> Result<Self, GridRowError> {
        let pieces: Vec<&[u8]> = state.iter().map(|piece| bytemuck::cast_slice(piece)).collect();
        let snapshot = GridSnapshot { next_row, element: element_of(&mechanism), bytes: pieces.concat() };
        Ok(Self::Integers(GridGenerator::restore(stream, mechanism, range, &snapshot)?))
    }

    /// Returns whether the rows are integers on a grid.
    pub fn is_on_grid(&self) -> bool {
        matches!(self, Self::Integers(_))
    }

    /// Returns the row that is made next.
    pub fn next_row(&self) -> u64 {
        match self {
            Self::Floats(generator) => generator.next_row(),
            Self::Integers(generator) => generator.next_row(),
        }
    }

    /// Returns the number of rows left to make.
    pub fn remaining(&self) -> u64 {
        match self {
            Self::Floats(generator) => generator.remaining(),
            Self::Integers(generator) => generator.remaining(),
        }
    }

    /// Returns the coordinates of the rows.
    pub fn range(&self) -> Range<u64> {
        match self {
            Self::Floats(generator) => generator.range(),
            Self::Integers(generator) => generator.range(),
        }
    }

    /// Returns the words of state for each coordinate.
    pub fn slots(&self) -> usize {
        match self {
            Self::Floats(generator) => generator.slots(),
            Self::Integers(generator) => {
                let mechanism = generator.mechanism();
                mechanism.slots() * element_of(mechanism).bytes() / WORD
            }
        }
    }

    /// Returns the words of state for each block of coordinates.
    pub fn block_state_len(&self) -> usize {
        self.slots() * BLOCK
    }

    /// Returns the bytes of past normals that are kept; of integers none are.
    pub fn history_bytes(&self) -> usize {
        match self {
            Self::Floats(generator) => generator.history_bytes(),
            Self::Integers(_) => 0,
        }
    }

    /// Returns the same generator, which draws past normals again block by block and keeps none.
    ///
    /// # Errors
    /// [`KernelError`] of [`Generator::with_history`].
    pub fn redrawing(self) -> Result<Self, KernelError> {
        Ok(match self {
            Self::Floats(generator) => Self::Floats(generator.with_history(History::Redraw)?),
            integers => integers,
        })
    }

    /// Returns a generator of one block of this range, with a copy of its state, which draws past normals again.
    pub(crate) fn of_block(&self, block: u64, backend: Backend) -> Result<Self, KernelError> {
        Ok(match self {
            Self::Floats(generator) => Self::Floats(generator.of_block(block, backend)?),
            Self::Integers(generator) => Self::Integers(generator.of_block(block, backend)?),
        })
    }

    /// Returns whether the state of a block's generator is that of the block here, bit by bit.
    pub(crate) fn has_state_of(&self, block: &Self) -> bool {
        match (self, block) {
            (Self::Floats(all), Self::Floats(block)) => all.has_state_of(block),
            (Self::Integers(all), Self::Integers(block)) => all.has_state_of(block),
            _ => false,
        }
    }

    /// Returns the number of rows to make in one call.
    pub fn suggested_rows_at_once(&self) -> usize {
        match self {
            Self::Floats(generator) => generator.suggested_rows_at_once(),
            Self::Integers(_) => 8,
        }
    }

    /// Makes the next rows, each as long as the range. Integers are written as the bits of words.
    ///
    /// # Errors
    /// Those of [`Generator::generate`] and [`GridGenerator::generate`].
    pub fn generate(&mut self, out: &mut [&mut [f32]]) -> Result<(), GridRowError> {
        match self {
            Self::Floats(generator) => Ok(generator.generate(out)?),
            Self::Integers(generator) => {
                let mut rows: Vec<&mut [i32]> =
                    out.iter_mut().map(|row| bytemuck::cast_slice_mut(row)).collect();
                generator.generate(&mut rows)
            }
        }
    }

    /// Passes over rows.
    ///
    /// # Errors
    /// Those of [`Generator::skip`] and [`GridGenerator::skip`].
    pub fn skip(&mut self, rows: u64) -> Result<(), GridRowError> {
        match self {
            Self::Floats(generator) => Ok(generator.skip(rows)?),
            Self::Integers(generator) => generator.skip(rows),
        }
    }

    /// Returns the words of state, of all blocks in order, where they lie as such in memory: of floats.
    pub fn state_in_place(&self) -> Option<&[f32]> {
        match self {
            Self::Floats(generator) => Some(generator.state()),
            Self::Integers(_) => None,
        }
    }

    /// Returns the words of state, of all blocks in order.
    ///
    /// # Errors
    /// [`GridRowError::Failed`] after a row that failed.
    pub fn state(&self) -> Result<Cow<'_, [f32]>, GridRowError> {
        Ok(match self {
            Self::Floats(generator) => Cow::Borrowed(generator.state()),
            Self::Integers(generator) => Cow::Owned(words_of(generator)?),
        })
    }

    /// Returns a copy of the state.
    ///
    /// # Errors
    /// [`GridRowError`] where the system has no memory for one, and after a row that failed.
    pub fn copy_state(&self) -> Result<StateCopy, GridRowError> {
        Ok(match self {
            Self::Floats(generator) => StateCopy::Buffer(generator.copy_state()?),
            Self::Integers(generator) => StateCopy::Words(words_of(generator)?),
        })
    }
}

/// Bytes of a word.
const WORD: usize = size_of::<f32>();

fn words_of(generator: &GridGenerator) -> Result<Vec<f32>, GridRowError> {
    let bytes = generator.snapshot()?.bytes;
    let mut words = vec![0f32; bytes.len() / WORD];
    bytemuck::cast_slice_mut(&mut words).copy_from_slice(&bytes);
    Ok(words)
}

/// The type of the state's values.
fn element_of(mechanism: &GridMechanism) -> GridElement {
    match mechanism.family() {
        GridFamily::Blt { .. } => GridElement::F64,
        _ => GridElement::I32,
    }
}
