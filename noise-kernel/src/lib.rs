//! Rows of σζ·C⁻¹Z for any range of coordinates: keys, ChaCha streams, the Gaussian transform, correlation.
//!
//! The stream is specified in `docs/noise-stream.md`. The value of a coordinate in a row depends on branch key,
//! coefficients, row and coordinate alone: not on ranges, rows at once, threads, instruction set or restarts.
//! [`Generator`] is the fast way to make rows; [`Oracle`] recomputes any of them slowly, in the plainest code.
//!
//! All arithmetic is binary32 add, subtract, multiply, square root and fused multiply-add in the order given there,
//! rounded to nearest. A thread that sets its processor to flush subnormals or to another rounding mode
//! leaves the specification.

mod block;
mod blt;
mod chacha;
mod check;
#[allow(unsafe_code)]
mod dispatch;
mod error;
mod gaussian;
mod generator;
mod history;
mod key;
mod linear;
mod mechanism;
#[allow(unsafe_code)]
mod memory;
mod oracle;
mod oracle_normal;
mod output;
#[cfg(test)]
mod overlap;
mod parallel;
#[allow(unsafe_code)]
mod simd;
mod stream;
mod sums;
mod tail;
mod tree;

pub use block::BLOCK;
pub use check::stream_count;
pub use dispatch::Backend;
pub use error::KernelError;
pub use generator::Generator;
pub use history::History;
pub use key::{BranchKey, JobKey, RowKeys};
pub use memory::Buffer;
pub use oracle::Oracle;
pub use output::{Row, round_bf16};
pub use stream::{Rounds, Stream};
pub use tail::{LARGEST_NORMAL, tail_delta};

/// Version of the noise stream. A change of any output bit is a new version.
pub const STREAM_VERSION: u32 = 2;
