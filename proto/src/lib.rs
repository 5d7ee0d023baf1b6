//! The contract between Rustle's processes: validated domain types, errors that stay typed across gRPC, release
//! tokens, and the services generated from `proto/rustle/v1/*.proto`.
//!
//! Messages are generated into [`pb`]; [`model`] holds what services work with after the boundary has checked it.

mod chunk;
mod commitment;
mod element;
mod error;
mod frame;
mod ids;
mod lineage;
pub mod model;
mod range;
mod token;
mod version;

pub use chunk::{ChunkError, ChunkHead, DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, chunk_of};
pub use commitment::{Commitment, CommitmentKind};
pub use element::ElementType;
pub use error::{Result, ServiceError};
pub use frame::{FRAME_PREFIX, FrameReader, ReceivedChunk, frame_head};
pub use ids::{IdError, Incarnation, JobId, WorkerId};
pub use lineage::{Lineage, Segment};
pub use range::{CoordinateRange, RowRange};
pub use token::{ReleaseKey, ReleaseToken, Validity};
pub use version::{PROTOCOL_HEADER, PROTOCOL_VERSION, check_protocol};

use std::time::Duration;

/// Largest message a service takes or sends: a chunk with room for its fields.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Between two attempts of a worker to reach its coordinator, which waits for so much longer than a lease, once it has
/// started, for what workers have to say.
pub const LONGEST_WORKER_BACKOFF: Duration = Duration::from_secs(1);

/// Marks in one message of a worker, of at most some 200 bytes each. A message with so many is not the worker's last word:
/// the next comes at once, and its coordinator waits for it before it binds.
pub const MOST_MARKS_TOLD: usize = 8192;

/// Released rows that a worker keeps in memory, so that a retry needs no replay.
pub const RELEASED_ROWS_KEPT: u64 = 2;

/// Generated messages and services of the package `rustle.v1`.
#[allow(clippy::all, clippy::unwrap_used, missing_docs)]
pub mod pb {
    tonic::include_proto!("rustle.v1");
}

/// Encoded file descriptors, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
