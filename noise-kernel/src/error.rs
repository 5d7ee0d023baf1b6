//! What can be wrong with what a caller gives.

use crate::backend::Backend;

/// Every error names the value given and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KernelError {
    #[error("a job key has {got} bytes, but must have 32")]
    KeyLength { got: usize },
    #[error("a job id has {got} bytes, but may have at most {}", u32::MAX)]
    JobIdLength { got: usize },
    #[error("the lineage {got} is none: {allowed}")]
    Lineage { got: String, allowed: &'static str },
    #[error("the coordinate range {start}..{end} is empty: its end must be greater than its start")]
    EmptyRange { start: u64, end: u64 },
    #[error("the scale σζ is {got}, but must be a finite number greater than 0")]
    Scale { got: f32 },
    #[error("{what} is {got}, but must be {allowed}")]
    Coefficients { what: &'static str, got: String, allowed: String },
    #[error("row {row} was requested, but only rows below {iterations} exist")]
    RowBeyondIterations { row: u64, iterations: u64 },
    #[error("buffer {index} has {got} values, but the range has {expected} coordinates")]
    BufferLength { index: usize, got: usize, expected: usize },
    #[error("the state has {got} values, but {expected} belong to this range and mechanism")]
    StateLength { got: usize, expected: usize },
    #[error("{what} needs {bytes} bytes, more than this machine can address")]
    TooLarge { what: &'static str, bytes: u128 },
    #[error("the system has no {bytes} bytes for {what}")]
    OutOfMemory { what: &'static str, bytes: u128 },
    #[error("the backend {backend} is not available on this processor; available: {available}")]
    Backend { backend: Backend, available: String },
    #[error("there is no backend {got:?}; allowed: auto, portable, avx2, avx512, neon")]
    BackendName { got: String },
}
