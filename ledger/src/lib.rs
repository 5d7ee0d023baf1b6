//! The release ledger: a durable record of what may be released.
//!
//! [`Ledger`] binds each row of a job to one commitment, durably, before any byte of the row may be released. It also
//! records jobs, shards with their epochs, and the list of checkpoints. Where a commit's outcome can't be known, or the
//! store is damaged, the ledger stops with a clear error: a lost row costs utility, a row used twice costs the
//! guarantee.
//!
//! # Layout
//!
//! * `rules`: the calls of [`Ledger`] on jobs, shards, bindings, branches, cursors, checkpoints and data sets, one
//!   transaction each.
//! * `tables`: the tables of the database, and how they are read and written.
//! * `chain`: each job's and data set's chain of events, its replay, and the check of all tables against it; archives of
//!   destroyed jobs.
//! * `store`: transactions, group commit, beginning and opening a file; `store::backend` is the interface to storage.
//! * `etcd` (feature `etcd`): the ledger in etcd, and the election of its leader.
//! * `wire`: JSON of changes and records, as they are in etcd.
//! * `copies`: copies of a ledger, which are found by anchors outside of it.
//! * `offline`: a ledger's file, read by tools ([`LedgerFile`]).
//! * `data_set`: records of data sets and charges; `approval`: of what takes two persons; `sweep`: of sweeps.
//! * `record`, `error`, `report`: records of jobs and shards, errors, and the report of what was released.
//!
//! # Example
//!
//! ```
//! use ledger::{BindOutcome, JobRecord, JobState, Ledger, LedgerError, ShardRecord};
//! use proto::{Commitment, CoordinateRange, JobId, Lineage, Nonce, RowRange};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("ledger.redb");
//! // A program draws ids and nonces from the operating system.
//! Ledger::init(&path, Nonce::from_bytes([7; 32]))?;
//! let ledger = Ledger::open(&path)?;
//!
//! let job = JobId::new("default")?;
//! let nonce = Nonce::from_bytes([9; 32]);
//! let record = JobRecord {
//!     job: job.clone(),
//!     nonce,
//!     plan_toml: "mechanism = \"blt\"".to_owned(),
//!     plan_digest: [1; 32],
//!     dimension: 1000,
//!     layout_digest: [3; 32],
//!     iterations: 100,
//!     mechanism: "blt".to_owned(),
//!     key_commitment: [2; 32],
//!     branch: 0,
//!     lineage: Lineage::of_job(nonce),
//!     shards: 1,
//!     layout_epoch: 0,
//!     state: JobState::Running,
//! };
//! let range = CoordinateRange::new(0, 1000)?;
//! ledger.create_job(&record, &[ShardRecord { shard: 0, range, epoch: 0, owner: None }])?;
//!
//! let row = RowRange::new(0, 1)?;
//! let step = Commitment::of_text("step 0 of my training");
//! assert_eq!(ledger.bind(&job, 0, row, &[step])?, BindOutcome { newly: 1 });
//! // The same commitment again releases nothing new, and another one is refused.
//! assert_eq!(ledger.bind(&job, 0, row, &[step])?, BindOutcome { newly: 0 });
//! let other = ledger.bind(&job, 0, row, &[Commitment::of_text("another step")]);
//! assert!(matches!(other, Err(LedgerError::AlreadyBound { row: 0, .. })));
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod approval;
mod approval_checks;
mod block;
mod block_checks;
mod chain;
mod copies;
mod data_set;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod offline;
mod record;
mod report;
mod rules;
mod store;
mod sweep;
mod sync;
#[doc(hidden)]
pub mod tables;
#[doc(hidden)]
pub mod wire;

use std::{path::Path, sync::Arc};

use copies::Guard;
use proto::Nonce;
use rules::bindings::{self, Refusals};
use store::{acting::ActingStore, backup, group_commit::GroupCommit, open};

pub use approval::{Approval, Approvals};
pub use block::{BlockRecord, Blocks};
pub use chain::{
    Head,
    archive::{ArchivedBindings, ArchivedBranch, ArchivedOpening, JobArchive, Opened},
    data_set_event::DataSetEvent,
    entry::{AppendedEntry, Entry},
    entry_line::{ChainCheck, ChainGap, EntryLine},
    event::{BoundRow, Event},
    stamp::{Clock, Principal, Stamp},
};
pub use copies::{AnchorPlace, AnchorTrouble, Draws, StoreAnchor, StoreLease};
pub use data_set::{Charge, ChargeState, ChargedJob, DataSetRecord, DataSetState, Recharge, Reservation};
pub use error::LedgerError;
pub use offline::{Chain, Fault, LedgerFile};
pub use record::{BindOutcome, BindingSummary, Created, JobRecord, JobState, ShardRecord};
pub use rules::{
    archives::{ArchivedJob, Archives, MAX_ARCHIVE_BYTES, TooLargeArchive},
    branches::{BranchReleases, OpenedBranch},
    cursor::{CursorState, JobCursor},
    openings::Opening,
};
pub use store::FAIL_POINTS;
pub use sweep::SweepRecord;

/// The result of a call of the ledger.
pub type Result<T, E = LedgerError> = std::result::Result<T, E>;

/// The release ledger and the coordinator's metadata, in one file. Every call blocks, and what it reports as done is on
/// disk when it returns. Clones share one store; the file is open in one process only.
#[derive(Clone)]
pub struct Ledger {
    store: ActingStore,
    refusals: Refusals,
    group_commit: Arc<GroupCommit<bindings::Request, BindOutcome>>,
    copies: Guard,
}

impl Ledger {
    /// Begins a new ledger at `path`, with a random `id`. It is there, whole and durable, when this returns.
    ///
    /// # Errors
    /// [`LedgerError::Begun`] where there is a file, which is left as it is; [`LedgerError::Lost`] where there is none, and an anchor
    /// of an earlier one; [`LedgerError::Io`].
    pub fn init(path: &Path, id: Nonce) -> Result<()> {
        open::init(path, id)
    }

    /// Opens the ledger at `path`.
    ///
    /// Before anything is written to it, the file is checked: the store's own checksums, then every job's chain of events,
    /// then all records against what the chains say. What the check repairs for trial stays in memory, and a file that fails
    /// is refused and left as it is. Memory stays below 256 MiB, however many rows are bound.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] where there is no file: none is begun in silence. [`LedgerError::Locked`],
    /// [`LedgerError::Damaged`], [`LedgerError::Format`], [`LedgerError::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            store: ActingStore::new(open::open(path)?),
            refusals: Default::default(),
            group_commit: Arc::default(),
            copies: Guard::default(),
        })
    }

    /// Returns a copy of the ledger file at `path` as of some moment of this call, checked as [`Ledger::open`] checks it. The file
    /// may be open and written meanwhile, by this process or another one.
    ///
    /// # Errors
    /// [`LedgerError::Missing`]; [`LedgerError::Damaged`] where no reading of many was whole; [`LedgerError::Format`],
    /// [`LedgerError::Io`].
    pub fn backup(path: &Path) -> Result<Vec<u8>> {
        backup::backup(path)
    }

    /// Archives every destroyed job of the ledger at `path` ([`Ledger::archive_destroyed`]), and gives the room that is free
    /// in the file back to its folder. Nothing else may have the ledger open. The file is checked as [`Ledger::open`] checks it
    /// before anything is archived, and once more with the archives in it before its pages are moved; what moving them leaves is
    /// checked when it is opened next. No anchor is looked at, and none is changed: whether the ledger is an older copy is found
    /// when it is taken up, as before.
    ///
    /// # Errors
    /// Those of [`Ledger::open`]; [`LedgerError::ArchivedInPart`] where jobs are archived already.
    pub fn compact(path: &Path) -> Result<Archives> {
        let done = Self::open(path)?.archive_destroyed()?;
        open::compact(path).map_err(|error| done.failed(path, error))?;
        Ok(done)
    }

    /// Opens a ledger on any store of bytes, such as a simulated disk, with the checks of [`Ledger::open`]. Errors call
    /// it `path`. An empty store becomes a new ledger with the id `new`.
    pub fn open_on(disk: impl redb::StorageBackend, path: &Path, new: Nonce) -> Result<Self> {
        Ok(Self {
            store: ActingStore::new(open::open_on(disk, path, new)?),
            refusals: Default::default(),
            group_commit: Arc::default(),
            copies: Guard::default(),
        })
    }

    /// Returns the same open ledger, on which `by` acts: what is changed through it is recorded as by `by`. On a ledger as it
    /// was opened [`Principal::local`] acts.
    pub fn acting_as(&self, by: Principal) -> Self {
        Self { store: self.store.acting_as(by), ..self.clone() }
    }

    /// Has `observer` hear of every entry of every chain from now on, in order, as soon as it is durable. It must return at
    /// once, for the next change waits for it. A ledger has one observer: the first.
    pub fn observe(&self, observer: impl Fn(Vec<AppendedEntry>) + Send + 'static) {
        self.store.observe(Box::new(observer));
    }

    /// Returns the same open ledger with another clock, for tests and simulations.
    pub fn with_clock(&self, clock: Clock) -> Self {
        Self { store: self.store.with_clock(clock), ..self.clone() }
    }
}
