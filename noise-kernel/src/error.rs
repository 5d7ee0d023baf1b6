//! The crate's error type.

use crate::backend::Backend;

/// A refusal of an argument. Every error names the value and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// The job key has another length than 32 bytes.
    #[error("a job key has {got} bytes, but must have 32")]
    KeyLength {
        /// Bytes of the key.
        got: usize,
    },
    /// No vector has this many coordinates.
    #[error("a vector of {got} coordinates can't be: it has 1 to {}", plan::Layout::MAX_DIMENSION)]
    Dimension {
        /// The number of coordinates.
        got: u64,
    },
    /// The lineage's rows don't begin with 0 or don't rise.
    #[error("a lineage has the first rows {got}: {allowed}")]
    Lineage {
        /// The first row of each of its branches.
        got: String,
        /// The rule it breaks.
        allowed: &'static str,
    },
    /// The range of coordinates is empty.
    #[error("the coordinate range {start}..{end} is empty: its end must be greater than its start")]
    EmptyRange {
        /// The first coordinate.
        start: u64,
        /// The coordinate after the last.
        end: u64,
    },
    /// The scale is not a positive finite number.
    #[error("the scale σζ is {got}, but must be a finite number greater than 0")]
    Scale {
        /// The scale.
        got: f32,
    },
    /// A coefficient is out of range, or the coefficients don't fit each other or the number of rows.
    #[error("{what} is {got}, but must be {allowed}")]
    Coefficients {
        /// The number that is wrong.
        what: &'static str,
        /// Its value.
        got: String,
        /// The values it may have.
        allowed: String,
    },
    /// A row or stream past the last was requested.
    #[error("row {row} was requested, but only rows below {iterations} exist")]
    RowBeyondIterations {
        /// The row, or the stream.
        row: u64,
        /// The number of rows, or of streams.
        iterations: u64,
    },
    /// A buffer's length is not that of the range.
    #[error("buffer {index} has {got} values, but the range has {expected} coordinates")]
    BufferLength {
        /// The buffer's place among those of the call.
        index: usize,
        /// Its length.
        got: usize,
        /// The coordinates of the range.
        expected: usize,
    },
    /// The state's length is not that of range and mechanism.
    #[error("the state has {got} values, but {expected} belong to this range and mechanism")]
    StateLength {
        /// Values of the state.
        got: usize,
        /// Values that belong to range and mechanism.
        expected: usize,
    },
    /// The memory is more than this machine can address.
    #[error("{what} needs {bytes} bytes, more than this machine can address")]
    TooLarge {
        /// The memory's use.
        what: &'static str,
        /// Its size.
        bytes: u128,
    },
    /// The system refused the memory.
    #[error("the system has no {bytes} bytes for {what}")]
    OutOfMemory {
        /// The memory's use.
        what: &'static str,
        /// Its size.
        bytes: u128,
    },
    /// This processor does not have the backend.
    #[error("the backend {backend} is not available on this processor; available: {available}")]
    Backend {
        /// The backend.
        backend: Backend,
        /// The names of those that are available.
        available: String,
    },
    /// There is no backend of this name.
    #[error("there is no backend {got:?}; allowed: auto, portable, avx2, avx512, neon")]
    BackendName {
        /// The name.
        got: String,
    },
    /// This processor makes other rows than are specified.
    #[error(
        "this processor computes wrongly: on {backend}, rows of a known {what} have SHA-256 {got}, not {expected}"
    )]
    KnownAnswer {
        /// The backend that made the rows.
        backend: Backend,
        /// The mechanism.
        what: &'static str,
        /// The digest of the rows that were made.
        got: String,
        /// The digest of the right ones.
        expected: &'static str,
    },
    /// A row was made again, and has other bits.
    #[error(
        "this processor or its memory is faulty: row {row} from coordinate {coordinate} on, made by {made_by}, has other \
         bits when {checked_by} makes it again"
    )]
    WrongRow {
        /// The row, or the one after the last where the rows agree and the state does not.
        row: u64,
        /// The first coordinate that differs; of the state, the block's first.
        coordinate: u64,
        /// The backend that made the row.
        made_by: Backend,
        /// The backend that made it again.
        checked_by: Backend,
    },
}
