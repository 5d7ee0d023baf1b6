//! The errors of grid rows.

use crate::KernelError;

/// The reason that there is no row.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GridRowError {
    /// An argument was refused; nothing was changed.
    #[error(transparent)]
    Argument(#[from] KernelError),
    /// A value of a row, or of a tree's state, has an absolute value of 2³¹ or more.
    #[error(
        "row_out_of_range: row {row} is {value} at coordinate {coordinate}, but a grid row holds {} to {}: \
         take a larger grid step",
        -i32::MAX, i32::MAX
    )]
    RowOutOfRange {
        /// The row.
        row: u64,
        /// The first such coordinate.
        coordinate: u64,
        /// The value.
        value: i128,
    },
    /// A number lies closer to the middle between two whole ones than all bits of its uniforms can tell. It happens less
    /// than once in 2¹⁵⁰ values.
    #[error(
        "row {row} is undecided at coordinate {coordinate}: it lies within 2^-179 of the edge of a grid step"
    )]
    Undecided {
        /// The row.
        row: u64,
        /// The first such coordinate.
        coordinate: u64,
    },
    /// The state saved is of another type than this mechanism's.
    #[error("the state's values are {got}, but this mechanism's are {expected}")]
    Element {
        /// The type of the state's values.
        got: &'static str,
        /// The type of the mechanism's.
        expected: &'static str,
    },
    /// An earlier row of this generator failed.
    #[error("no row follows one that failed: {0}")]
    Failed(Box<GridRowError>),
}
