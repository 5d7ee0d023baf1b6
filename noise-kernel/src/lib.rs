//! Rows of σζ·C⁻¹Z for any range of coordinates: keys, ChaCha streams, the Gaussian transform, correlation.
//!
//! The stream is specified in `docs/noise-stream.md`. The value of a coordinate in a row depends on branch key,
//! coefficients, row and coordinate alone: not on ranges, rows at once, threads, instruction set or restarts.
//! [`Generator`] is the fast way to make rows; [`Oracle`] recomputes any of them slowly, in the plainest code.
//!
//! All arithmetic is binary32 add, subtract, multiply, square root and fused multiply-add in the order given there,
//! rounded to nearest. A thread that sets its processor to flush subnormals or to another rounding mode
//! leaves the specification.

#![deny(missing_docs)]

mod backend;
mod block;
mod blt;
mod chacha;
#[allow(unsafe_code)]
mod dispatch;
mod elementwise;
mod error;
mod gaussian;
mod generator;
mod history;
mod key;
mod mechanism;
#[allow(unsafe_code)]
mod memory;
mod oracle;
mod oracle_normal;
mod output;
mod parallel;
mod partial_sums;
mod prefetch;
mod range;
mod row_group;
#[allow(unsafe_code)]
mod simd;
mod stream;
mod tail_bound;
mod tile;
mod tree;
mod triangular;
mod validate;

// Which words of the keystream every draw takes, tried out. It reads the addresses of blocks, which are private.
#[cfg(test)]
#[path = "../tests/keystream_overlap/mod.rs"]
mod keystream_overlap;

pub use backend::Backend;
pub use block::BLOCK;
pub use chacha::Rounds;
pub use error::KernelError;
pub use generator::Generator;
pub use history::History;
pub use key::{BranchKey, JobKey, RowKeys};
pub use memory::Buffer;
pub use oracle::Oracle;
pub use output::{Row, round_bf16};
pub use stream::Stream;
pub use tail_bound::{LARGEST_NORMAL, tail_delta};
pub use validate::stream_count;

/// Version of the noise stream. A change of any output bit is a new version.
pub const STREAM_VERSION: u32 = 2;
