//! Rows of σζ·C⁻¹Z for any range of coordinates: keys, ChaCha streams, the Gaussian transform, correlation.
//!
//! The stream is specified in `docs/noise-stream.md`. The value of a coordinate in a row depends on branch key,
//! coefficients, row and coordinate alone: not on ranges, rows at once, threads, instruction set or restarts.
//! [`Generator`] is the fast way to make rows; [`Oracle`] recomputes any of them slowly, in the plainest code. Symbols
//! are those of the notation table in the documentation of crate `strategy`.
//!
//! ```
//! use noise_kernel::{Generator, JobKey, NoiseContext, Oracle, Rounds, Stream};
//! use plan::{Mechanism, Participation, Plan, PlanSpec};
//! use std::sync::Arc;
//!
//! let plan = Plan::new(PlanSpec {
//!     chacha_rounds: 20,
//!     iterations: 100,
//!     noise_multiplier: 1.5,
//!     clip_norm: 2.0,
//!     participation: Participation { min_sep: 25, max_participations: 4 },
//!     mechanism: Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.125, 0.25] },
//!     layout: None,
//!     grid: None,
//! })?;
//! let coefficients = Arc::new(plan.coefficients()?);
//! // A ledger draws the nonce when it creates the job.
//! let context = NoiseContext::new(&plan, 1_500, [9; 32])?;
//! let key = JobKey::from_bytes(&[7; 32])?.branch(&context, &context.job_nonce);
//!
//! // Coordinates 500..1_500 of rows 0 and 1.
//! let stream = Stream::new(&key, Rounds::Twenty);
//! let mut generator = Generator::new(stream, coefficients.clone(), 100, plan.scale(), 500..1_500)?;
//! let mut rows = vec![vec![0.0; 1_000]; 2];
//! let [first, second] = &mut rows[..] else { unreachable!("two rows") };
//! generator.generate(&mut [first, second])?;
//!
//! let oracle = Oracle::new(key, Rounds::Twenty, coefficients, 100, plan.scale())?;
//! let expected = oracle.rows(0..2, 500..1_500)?;
//! assert!(rows.iter().flatten().zip(expected.iter().flatten()).all(|(a, b)| a.to_bits() == b.to_bits()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All arithmetic is binary32 add, subtract, multiply, square root and fused multiply-add in the order of the
//! specification, rounded to nearest. A thread that sets its processor to flush subnormals or to another rounding mode
//! leaves the specification.
//!
//! # Layout
//!
//! * `key`: [`JobKey`], [`NoiseContext`], [`BranchKey`], [`RowKeys`]; `stream`: [`Stream`], the i.i.d. normals of a branch.
//! * `block`, `chacha`, `gaussian`: 512 normals from keystream words; `prefetch`: memory fetched meanwhile.
//! * `mechanism`: one call of the generator on one block; `blt`, `tree`: one mechanism each; `row_group`,
//!   `partial_sums`, `triangular`, `tile`: sums over earlier rows as small matrix products; `elementwise`, `output`:
//!   sums, differences and rows as they leave.
//! * `generator`: [`Generator`]; `parallel`, `range`: blocks of a range shared among threads; `history`, `memory`:
//!   past normals and buffers.
//! * `simd`, `dispatch`, `backend`: the processor's instruction sets and the choice among them.
//! * `validate`, `error`: checks of coefficients and the crate's error; `tail_bound`: δ of the cut Gaussian tail.
//! * `row_generator`: [`RowGenerator`], of floats or of whole numbers.
//! * [`grid`]: rows of whole numbers, exact noise that floating-point addition can't betray.
//! * `oracle`, `oracle_normal`: every row once more, from the specification.
//! * [`check_known_answers`], [`Recheck`]: whether this processor computes rightly, at a start and while rows are made.

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
pub mod grid;
mod history;
mod key;
mod known_answers;
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
mod recheck;
mod row_generator;
mod row_group;
#[allow(unsafe_code)]
mod simd;
mod stream;
mod tail_bound;
mod tile;
mod tree;
mod triangular;
mod validate;

// The words of the keystream that every draw takes. These tests read the private addresses of blocks.
#[cfg(test)]
#[path = "../tests/keystream_overlap/mod.rs"]
mod keystream_overlap;

pub use backend::Backend;
pub use block::BLOCK;
pub use chacha::Rounds;
pub use error::KernelError;
pub use generator::Generator;
pub use history::History;
pub use key::{BranchKey, JobKey, NoiseContext, RowKeys};
pub use known_answers::check_known_answers;
pub use memory::{Buffer, Number};
pub use oracle::Oracle;
pub use output::{Row, round_bf16};
pub use recheck::{Recheck, Sample};
pub use row_generator::{RowGenerator, StateCopy};
pub use stream::Stream;
pub use tail_bound::{LARGEST_NORMAL, tail_delta};
pub use validate::stream_count;

/// The version of the noise stream. A change of any output bit is a new version.
pub const STREAM_VERSION: u32 = 3;
