//! Shard states as sealed objects, in a folder or a bucket.
//!
//! A worker writes the state of its shard and the rows that it has generated ahead; after a restart, or on another
//! machine, a worker reads them back instead of replaying from row 0. Objects are sealed under a key of the job
//! ([`CheckpointKey`]), which a coordinator never has. A checkpoint is a cache: whatever is lost or damaged can be made
//! again from the job's key, so this crate decides nothing about releases. It keeps what a ledger's anchor says, too.
//!
//! # Layout
//!
//! * `store`: [`CheckpointStore`], which opens a URL, writes manifests and deletes checkpoints; `s3` opens buckets.
//! * `write`, `read`: one shard in one pass, sealed and hashed; `payload` orders its values.
//! * `shard_file`: the format of an object, frozen. `sealing`: its encryption in segments.
//! * `anchor`: anchors of ledgers, which are no checkpoints: small objects that are written over a known version alone.
//! * `gc`: deletes objects of checkpoints that were never completed.
//! * `error`: [`CheckpointError`].

#![deny(missing_docs)]

mod anchor;
mod error;
mod gc;
mod object_fail_point;
mod payload;
mod plain_http;
mod read;
#[cfg(feature = "s3")]
mod s3;
mod sealing;
mod shard_file;
mod store;
mod write;

pub use anchor::{AnchorVersion, StoredAnchor};
pub use error::CheckpointError;
pub use payload::ShardValues;
pub use plain_http::PlainHttp;
pub use sealing::CheckpointKey;
pub use shard_file::{ShardCheckpoint, ShardHeader};
pub use store::CheckpointStore;
pub use write::WrittenShard;

/// The result of a call of the checkpoint store.
pub type Result<T, E = CheckpointError> = std::result::Result<T, E>;
