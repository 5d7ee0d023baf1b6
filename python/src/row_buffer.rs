//! Values of rows that were fetched before their steps.

use client::Region;

use crate::error::Result;

/// Values of consecutive rows, all of one range.
pub enum RowBuffer {
    /// Memory of this process, with the number of values in a row.
    Owned(Vec<f32>, usize),
    /// Memory that workers of this host wrote to.
    Shared(Region),
}

impl RowBuffer {
    /// Returns the values of the row at `index`, counted from the first row of the buffer.
    ///
    /// # Errors
    /// The region has no such slot.
    pub fn row(&self, index: usize) -> Result<&[f32]> {
        match self {
            Self::Owned(values, width) => Ok(&values[index * width..(index + 1) * width]),
            Self::Shared(region) => Ok(region.row(index as u32)?),
        }
    }
}
