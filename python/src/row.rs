//! The values of a row, and the generators that make them: floating-point numbers, or integers of a plan on a grid.

use std::ops::Range;

use noise_kernel::grid::GridGenerator;
use noise_kernel::{Buffer, Generator};

use crate::error::Result;

/// Rows made at once on a grid.
const GRID_ROWS: usize = 8;

/// The values of one row, or of a range of it.
#[derive(Clone, Copy)]
pub enum Row<'a> {
    /// Noise in the gradient's own units.
    Floats(&'a [f32]),
    /// Noise in steps of the plan's grid.
    Integers(&'a [i32]),
}

impl Row<'_> {
    /// Returns the values at these places.
    pub fn part(self, places: Range<usize>) -> Self {
        match self {
            Self::Floats(values) => Self::Floats(&values[places]),
            Self::Integers(values) => Self::Integers(&values[places]),
        }
    }
}

/// Memory of one row.
pub enum RowMemory {
    Floats(Buffer),
    Integers(Buffer<i32>),
}

impl RowMemory {
    /// Returns the row that it holds.
    pub fn row(&self) -> Row<'_> {
        match self {
            Self::Floats(values) => Row::Floats(values),
            Self::Integers(values) => Row::Integers(values),
        }
    }
}

/// The generator of a plan's rows in one range.
pub enum RowGenerator {
    Floats(Generator),
    Integers(GridGenerator),
}

impl RowGenerator {
    /// Returns the global coordinates of the rows.
    pub fn range(&self) -> Range<u64> {
        match self {
            Self::Floats(generator) => generator.range(),
            Self::Integers(generator) => generator.range(),
        }
    }

    /// Returns the row made next.
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

    /// Returns the number of rows that are cheapest to make at once.
    pub fn rows_at_once(&self) -> usize {
        match self {
            Self::Floats(generator) => generator.suggested_rows_at_once(),
            Self::Integers(_) => GRID_ROWS,
        }
    }

    /// Returns whether rows are made from no others, so that skipping some takes no time.
    pub fn is_stateless(&self) -> bool {
        match self {
            Self::Floats(generator) => generator.slots() == 0,
            Self::Integers(generator) => generator.mechanism().slots() == 0,
        }
    }

    /// Advances by `rows` rows without making their values.
    ///
    /// # Errors
    /// Rows past the last; on a grid, a value beyond 32 bits.
    pub fn skip(&mut self, rows: u64) -> Result<()> {
        match self {
            Self::Floats(generator) => Ok(generator.skip(rows)?),
            Self::Integers(generator) => Ok(generator.skip(rows)?),
        }
    }

    /// Returns memory for one row of `width` values.
    ///
    /// # Errors
    /// More than the system has.
    pub fn memory(&self, width: usize) -> Result<RowMemory> {
        let what = "rows produced ahead";
        Ok(match self {
            Self::Floats(_) => RowMemory::Floats(Buffer::zeroed(what, width)?),
            Self::Integers(_) => RowMemory::Integers(Buffer::zeroed(what, width)?),
        })
    }

    /// Makes the next rows in the memory that [`RowGenerator::memory`] returned.
    ///
    /// # Errors
    /// Rows past the last; on a grid, a value beyond 32 bits.
    pub fn generate(&mut self, rows: &mut [RowMemory]) -> Result<()> {
        match self {
            Self::Floats(generator) => {
                let floats = |row| match row {
                    &mut RowMemory::Floats(ref mut values) => Some(&mut values[..]),
                    RowMemory::Integers(_) => None,
                };
                let mut rows: Vec<&mut [f32]> = rows.iter_mut().filter_map(floats).collect();
                Ok(generator.generate(&mut rows)?)
            }
            Self::Integers(generator) => {
                let integers = |row| match row {
                    &mut RowMemory::Integers(ref mut values) => Some(&mut values[..]),
                    RowMemory::Floats(_) => None,
                };
                let mut rows: Vec<&mut [i32]> = rows.iter_mut().filter_map(integers).collect();
                Ok(generator.generate(&mut rows)?)
            }
        }
    }
}
