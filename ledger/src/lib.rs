//! What may be released, and what is stored.
//!
//! [`Ledger`] binds each row of a job to one commitment, durably, before any byte of it may leave; it also keeps jobs,
//! shards with their epochs, and the list of checkpoints. [`CheckpointStore`] holds the shards' states as objects.
//!
//! When a commit's outcome can't be known, or the store is damaged, the ledger stops with a clear error: a row lost
//! costs utility, a row reused costs the guarantee.

mod bindings;
mod branches;
mod chain;
#[cfg_attr(not(feature = "etcd"), allow(dead_code))] // etcd is told of changes, a file is not
mod change;
mod checkpoint_list;
mod checkpoint_store;
mod container;
mod cursor;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod event;
mod fail_points;
#[cfg_attr(not(feature = "etcd"), allow(dead_code))] // etcd is told of changes, a file is not
mod field;
mod files;
mod hex_digest;
mod jobs;
#[cfg_attr(not(feature = "etcd"), allow(dead_code))] // etcd is told of changes, a file is not
mod keeper;
mod migrate;
mod object;
mod open;
mod payload;
mod played;
mod queue;
mod read_shard;
pub mod record;
mod report;
#[cfg(feature = "s3")]
mod s3;
mod sealing;
mod shards;
mod store;
mod sweep;
mod sync;
mod tables;
mod tiling;
mod verify;
mod write_shard;
mod writing;

use std::{path::Path, sync::Arc};

pub use branches::{BranchReleases, Opened};
pub use chain::{Entry, Head};
pub use checkpoint_store::{CheckpointStore, PlainHttp};
pub use container::{ShardCheckpoint, ShardHeader};
pub use cursor::{CursorState, JobCursor};
pub use error::LedgerError;
pub use event::{BoundRow, Event};
pub use fail_points::{ARE_ARMABLE, FAIL_POINTS, end_where_asked};
pub use files::{create_private_folder, sync_folder};
pub use object::{manifest_object, piece_object};
pub use payload::ShardValues;
pub use record::{
    BindingSummary, Bound, CheckpointRecord, Created, JobRecord, JobState, ShardRecord, pieces_by_checkpoint,
    pieces_for,
};
pub use sealing::CheckpointKey;
pub use write_shard::Written;

pub type Result<T, E = LedgerError> = std::result::Result<T, E>;

/// The release ledger and the coordinator's metadata, in one file. Every call blocks, and what it reports as done is on
/// disk when it returns. Clones share one store; one process at a time holds the file.
#[derive(Clone)]
pub struct Ledger {
    store: Arc<store::Store>,
    refusals: bindings::Refusals,
    queue: Arc<queue::Queue<bindings::Request, Bound>>,
}

impl Ledger {
    /// Opens the ledger at `path`, or begins a new one where there is no file.
    ///
    /// Before anything is written, a copy in memory is checked: the store's own checksums, then every job's chain of
    /// events, then all records against what the chains say. A file that fails is refused and left as it is. A file
    /// of format 1 is brought to format 2, in one durable commit.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { store: Arc::new(open::open(path)?), refusals: Default::default(), queue: Arc::default() })
    }

    /// As [`Ledger::open`], on any store that keeps bytes: a simulated disk. Errors call it `path`.
    pub fn open_on(disk: impl redb::StorageBackend, path: &Path) -> Result<Self> {
        Ok(Self {
            store: Arc::new(open::open_on(disk, path)?),
            refusals: Default::default(),
            queue: Arc::default(),
        })
    }
}
