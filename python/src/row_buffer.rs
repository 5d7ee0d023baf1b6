//! Words of rows that were fetched before their steps: `f32`, or the bits of `i32` under a plan on a grid.

use client::Region;
use proto::ElementType;

use crate::error::Result;

/// Words of consecutive rows, all of one range.
pub enum RowBuffer {
    /// Memory of this process, with the number of words in a row.
    Owned(Vec<f32>, usize),
    /// Memory that workers of this host wrote to.
    Shared(Region),
}

impl RowBuffer {
    /// Returns the words of the row at `index`, counted from the first row of the buffer.
    ///
    /// # Errors
    /// The region has no such slot.
    pub fn row(&self, index: usize) -> Result<&[f32]> {
        match self {
            Self::Owned(values, width) => Ok(&values[index * width..(index + 1) * width]),
            Self::Shared(region) => words(region, index as u32),
        }
    }
}

/// Returns the words of the row in a slot of a region.
///
/// # Errors
/// The region has no such slot.
pub fn words(region: &Region, slot: u32) -> Result<&[f32]> {
    match region.layout().element {
        ElementType::I32 => Ok(bytemuck::cast_slice(region.row_integers(slot)?)),
        ElementType::F32 | ElementType::Bf16 => Ok(region.row(slot)?),
    }
}
