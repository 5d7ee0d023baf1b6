//! Rows that came before their steps.

use client::Region;

use crate::error::Result;

/// Rows of one range, one after the other.
pub enum Held {
    /// So many values a row.
    Copied(Vec<f32>, usize),
    /// In memory that workers wrote to.
    Lent(Region),
}

impl Held {
    pub fn row(&self, index: usize) -> Result<&[f32]> {
        match self {
            Self::Copied(values, width) => Ok(&values[index * width..(index + 1) * width]),
            Self::Lent(region) => Ok(region.row(index as u32)?),
        }
    }
}
