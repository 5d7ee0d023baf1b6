//! Mechanisms whose rows are whole numbers, with their numbers checked.

use super::check::{check_deviations, check_family};
use super::family::{GridDeviations, GridFamily};
use crate::validate::tree_levels;
use crate::{KernelError, Rounds, RowKeys, Stream};

/// A mechanism on the grid whose coefficients were checked.
#[derive(Clone, Debug, PartialEq)]
pub struct GridMechanism {
    family: GridFamily,
    deviations: GridDeviations,
    iterations: u64,
}

impl GridMechanism {
    /// Returns the mechanism of `iterations` rows.
    ///
    /// # Errors
    /// [`KernelError::Coefficients`] for numbers that are out of range, that don't fit each other or `iterations`, or for
    /// coefficients of a banded C whose sums would not be exact.
    pub fn new(family: GridFamily, deviations: GridDeviations, iterations: u64) -> Result<Self, KernelError> {
        check_family(&family, iterations)?;
        check_deviations(&deviations, &family, iterations)?;
        Ok(Self { family, deviations, iterations })
    }

    /// Returns the form of the mechanism.
    pub fn family(&self) -> &GridFamily {
        &self.family
    }

    /// Returns the number of rows.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Returns the deviation of row `row`, in steps of the grid. The row is one of the mechanism's.
    pub fn deviation(&self, row: u64) -> f64 {
        match &self.deviations {
            GridDeviations::Every(deviation) => *deviation,
            GridDeviations::PerRow(deviations) => deviations[row as usize],
        }
    }

    /// Returns the number of rows of state for each coordinate: the buffers of a BLT, the rows that a banded C looks back
    /// at, the levels of a tree.
    pub fn slots(&self) -> usize {
        match &self.family {
            GridFamily::Identity | GridFamily::Inverse(_) => 0,
            GridFamily::Blt { theta, .. } => theta.len(),
            GridFamily::Banded(banded) => {
                let most = usize::try_from(self.iterations - 1).unwrap_or(usize::MAX);
                (banded.bands - 1).min(most)
            }
            GridFamily::Tree(tree) => tree_levels(tree),
        }
    }

    /// Returns the i.i.d. normals of rows with keys of their own, as of a job that was rewound.
    pub fn stream(&self, keys: &RowKeys, rounds: Rounds) -> Stream {
        match &self.family {
            GridFamily::Tree(tree) => Stream::from_keys(keys, |row| tree.first_stream(row), rounds),
            _ => Stream::from_keys(keys, |row| row, rounds),
        }
    }
}
