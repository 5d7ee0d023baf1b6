//! The contract between Rustle's processes: validated domain types, errors that stay typed across gRPC, release
//! tokens, and the services generated from `proto/rustle/v1/*.proto`.
//!
//! Messages are generated into [`pb`]; [`model`] holds what services work with after the boundary has checked it.
//!
//! # Layout
//!
//! * `ids`, `day`, `range`, `nonce`, `lineage`, `noise_id`, `commitment`, `element`: domain types, checked when they are
//!   created.
//! * [`tiling`]: how a vector is cut into shards.
//! * `coordinator_key`: what a coordinator signs with and workers check by.
//! * `token`, `row_tree`: release grants and tokens, signed by a coordinator and verified by workers; `order`: its signed
//!   orders to them; `possession`: proofs that a worker has a job's key.
//! * `error`: [`ServiceError`], what it means for the caller, and its way across gRPC; `invalid`: [`InvalidValue`].
//! * `chunk`, `frame`: values on the wire, without copies.
//! * `checkpoint`, `checkpoint_names`, `checkpoint_json`, [`hex_digest`]: records of checkpoints and names of objects.
//! * [`model`]: requests and grants, checked.
//! * `shell_word`: words of commands that messages name.
//! * `version`: the version of the protocol.
//!
//! # Example
//!
//! ```
//! use proto::{CoordinateRange, tiling};
//!
//! let shards = tiling::split(1300, 2, tiling::MAX_SHARDS)?;
//! let wanted = CoordinateRange::new(500, 600)?;
//! let parts: Vec<_> = shards.iter().filter_map(|shard| shard.intersection(&wanted)).collect();
//! assert_eq!(parts, [CoordinateRange { start: 500, end: 512 }, CoordinateRange { start: 512, end: 600 }]);
//! # Ok::<(), proto::ServiceError>(())
//! ```

#![deny(missing_docs)]

mod checkpoint;
mod checkpoint_json;
mod checkpoint_names;
mod chunk;
mod commitment;
mod coordinator_key;
mod day;
mod element;
mod error;
mod frame;
pub mod hex_digest;
mod ids;
mod invalid;
mod lineage;
pub mod model;
mod noise_id;
mod nonce;
mod order;
mod possession;
mod range;
mod row_tree;
pub mod rpc;
mod shell_word;
pub mod tiling;
mod token;
mod version;

pub use checkpoint::{CheckpointRecord, check_pieces, pieces_by_checkpoint, pieces_for};
pub use checkpoint_names::{PieceName, manifest_object, piece_object};
pub use chunk::{ChunkError, ChunkHead, DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, chunk_of};
pub use commitment::{Commitment, CommitmentKind, SECRET_CURSOR};
pub use coordinator_key::{CoordinatorKey, CoordinatorPublicKey, SIGNATURE_BYTES, SignedText};
pub use day::Day;
pub use element::ElementType;
pub use error::{BudgetShortfall, Result, ServiceError};
pub use frame::{FRAME_PREFIX, FrameReader, ReceivedChunk, frame_head};
pub use ids::{BlockId, DataSetId, IdError, Incarnation, JobId, PersonId, SweepId, TenantId, WorkerId};
pub use invalid::InvalidValue;
pub use lineage::{Lineage, Segment};
pub use noise_id::NoiseId;
pub use nonce::Nonce;
pub use order::{SignedSnapshot, SnapshotOrder};
pub use possession::{KeyProof, PossessionChallenge};
pub use range::{CoordinateRange, RowRange};
pub use row_tree::{RowHash, RowTree};
pub use shell_word::shell_word;
pub use token::{GrantedBranch, MAX_ROWS, ReleaseGrant, ReleaseToken, ReleasedRows, Validity};
pub use version::{PROTOCOL_HEADER, PROTOCOL_VERSION, check_protocol};

use std::time::Duration;

/// The largest message that a service receives or sends: a chunk with room for its fields.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The largest answer to a heartbeat: grants of some hundred thousand shards.
pub const MAX_GRANTS_BYTES: usize = 64 * 1024 * 1024;

/// The longest pause between two attempts of a worker to reach its coordinator. A coordinator that has started waits
/// this much longer than a lease for the reports of workers.
pub const LONGEST_WORKER_BACKOFF: Duration = Duration::from_secs(1);

/// The most marks in one message of a worker, each of at most some 200 bytes. A message with this many is not the last:
/// the next follows at once, and the coordinator waits for it before it binds.
pub const MAX_MARKS_PER_MESSAGE: usize = 8192;

/// Released rows that a worker keeps in memory, so that a retry needs no replay.
pub const RELEASED_ROWS_KEPT: u64 = 2;

/// Generated messages and services of the package `rustle.v1`.
#[allow(clippy::all, clippy::unwrap_used, missing_docs)]
pub mod pb {
    tonic::include_proto!("rustle.v1");
}

/// Encoded file descriptors, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
