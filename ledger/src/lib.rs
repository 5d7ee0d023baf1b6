//! What may be released, and what is stored.
//!
//! [`Ledger`] binds each row of a job to one commitment, durably, before any byte of it may leave; it also keeps jobs,
//! shards with their epochs, and the list of checkpoints. [`CheckpointStore`] holds the shards' states as objects.
//!
//! When a commit's outcome can't be known, or the store is damaged, the ledger stops with a clear error: a row lost
//! costs utility, a row reused costs the guarantee.

mod chain;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod record;
mod report;
mod rules;
mod store;
mod sync;
#[doc(hidden)]
pub mod tables;
#[doc(hidden)]
pub mod wire;

use std::{path::Path, sync::Arc};

use rules::bindings::{self, Refusals};
use store::{Store, group_commit::GroupCommit, open};

pub use chain::{
    Entry, Head,
    event::{BoundRow, Event},
};
pub use error::LedgerError;
pub use record::{BindOutcome, BindingSummary, Created, JobRecord, JobState, ShardRecord};
pub use rules::{
    branches::{BranchReleases, OpenedBranch},
    cursor::{CursorState, JobCursor},
};
pub use store::FAIL_POINTS;

pub type Result<T, E = LedgerError> = std::result::Result<T, E>;

/// The release ledger and the coordinator's metadata, in one file. Every call blocks, and what it reports as done is on
/// disk when it returns. Clones share one store; one process at a time holds the file.
#[derive(Clone)]
pub struct Ledger {
    store: Arc<Store>,
    refusals: Refusals,
    group_commit: Arc<GroupCommit<bindings::Request, BindOutcome>>,
}

impl Ledger {
    /// Opens the ledger at `path`, or begins a new one where there is no file.
    ///
    /// Before anything is written, a copy in memory is checked: the store's own checksums, then every job's chain of
    /// events, then all records against what the chains say. A file that fails is refused and left as it is. A file
    /// of format 1 is brought to format 2, in one durable commit.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            store: Arc::new(open::open(path)?),
            refusals: Default::default(),
            group_commit: Arc::default(),
        })
    }

    /// As [`Ledger::open`], on any store that keeps bytes: a simulated disk. Errors call it `path`.
    pub fn open_on(disk: impl redb::StorageBackend, path: &Path) -> Result<Self> {
        Ok(Self {
            store: Arc::new(open::open_on(disk, path)?),
            refusals: Default::default(),
            group_commit: Arc::default(),
        })
    }
}
