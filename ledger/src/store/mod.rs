//! Transactions on the ledger's tables. One rule holds for all callers: a change is reported as done once its backend
//! has made it durable, and where that can't be known the store stops until it is opened again.

pub mod acting;
#[cfg_attr(not(feature = "etcd"), allow(dead_code))]
// a file can't lose its leader, and needs no list of changes
pub mod backend;
pub mod backup;
pub mod group_commit;
pub mod height;
pub mod open;
pub mod overlay;
pub mod recording;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use durable_io::fail_point;
use redb::{Database, Durability, ReadTransaction, ReadableDatabase, WriteTransaction};

use crate::{
    LedgerError,
    chain::{entry::AppendedEntry, stamp::Stamp},
    error::Fail,
};
use backend::{Backend, CommitError};
use height::Height;
use recording::RecordingTransaction;

/// The changes of a service, which have fail points. A point's name is `ledger::` CHANGE `::` STEP, where STEP is `begin`,
/// `before_commit` or `after_commit` and CHANGE is one of these.
pub const FAIL_POINTS: [&str; 12] = [
    "take_up",
    "next_epoch",
    "create_job",
    "set_job_state",
    "set_owners",
    "replace_shards",
    "open_branch",
    "bind",
    "add_checkpoint",
    "remove_checkpoint",
    "create_data_set",
    "grant_budget",
];

/// Transactions on one database, made durable by a [`Backend`].
pub struct Store {
    db: Database,
    backend: Box<dyn Backend>,
    path: PathBuf,
    /// The height in an anchor outside of the ledger, where there is one.
    height: OnceLock<Height>,
    /// Who hears of every entry once it is durable. Locked from before a commit until that is heard, so that entries are
    /// heard in order.
    observer: OnceLock<Mutex<Observer>>,
    /// Set when a commit or the disk failed or the store panicked: the content of the disk is not known.
    stopped: AtomicBool,
}

/// Hears of entries that have become durable. It must return at once: the next change waits for it.
pub type Observer = Box<dyn Fn(Vec<AppendedEntry>) + Send>;

/// The result of a write transaction's body.
pub enum Outcome<T> {
    /// The changes are to be committed.
    Commit(T),
    /// There are no changes, and nothing to wait for.
    Nothing(T),
}

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

impl Store {
    /// Creates a store. Errors call it `path`.
    pub fn new(db: Database, backend: impl Backend + 'static, path: PathBuf) -> Self {
        let height = OnceLock::new();
        let observer = OnceLock::new();
        Self { db, backend: Box::new(backend), path, height, observer, stopped: AtomicBool::new(false) }
    }

    /// Moves the file's pages to its beginning, and cuts off what is free behind them.
    pub fn compact(mut self) -> Result<(), LedgerError> {
        let io = |reason: String| LedgerError::Io { path: self.path.clone(), reason };
        match catch_unwind(AssertUnwindSafe(|| self.db.compact())) {
            Ok(compacted) => compacted.map(|_| ()).map_err(|error| io(format!("compacting it: {error}"))),
            Err(panic) => Err(io(format!("compacting it: the store panicked: {}", panic_text(&*panic)))),
        }
    }

    /// Returns the store's path, or what errors call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the height in an anchor up to date from now on.
    pub fn follow(&self, height: Height) {
        let _ = self.height.set(height);
    }

    /// Looks whether the anchor with the height has been replaced.
    pub fn look_at_anchor(&self) {
        if let Some(height) = self.height.get() {
            height.look();
        }
    }

    /// Has the observer hear of every entry from now on, as soon as it is durable. The first one stays.
    pub fn observe(&self, observer: Observer) {
        let _ = self.observer.set(Mutex::new(observer));
    }

    /// Runs a transaction that reads.
    pub fn read<T>(&self, body: impl FnOnce(&ReadTransaction) -> Result<T, Fail>) -> Result<T, LedgerError> {
        self.guarded(|| {
            let transaction = self.db.begin_read().map_err(|error| self.failed(Fail::Store(error.into())))?;
            body(&transaction).map_err(|fail| self.failed(fail))
        })
    }

    /// Runs a transaction that writes, and returns once it is durable. `what` names the change in the fail points
    /// around it, and `stamp` says who makes it and when.
    pub fn write<T>(
        &self,
        #[cfg_attr(not(feature = "failpoints"), allow(unused_variables))] what: &'static str,
        stamp: Stamp,
        body: impl FnOnce(&RecordingTransaction<'_>) -> Result<Outcome<T>, Fail>,
    ) -> Result<T, LedgerError> {
        self.guarded(|| {
            fail_point!("ledger::{what}::begin", self.stop("a fail point".to_owned()));
            let transaction = begin_durable(&self.db).map_err(|error| self.failed(Fail::Store(error)))?;
            let writing = RecordingTransaction::new(&transaction, stamp, self.backend.wants_changes())
                .keeping_entries(self.observer.get().is_some());
            match body(&writing) {
                Ok(Outcome::Commit(value)) => {
                    let entries = writing.entries();
                    let appended = writing.take_entries();
                    let changes = writing.into_changes();
                    fail_point!("ledger::{what}::before_commit", self.stop("a fail point".to_owned()));
                    let observer = self.observer.get().filter(|_| !appended.is_empty());
                    let observer = observer.map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
                    self.backend
                        .commit(transaction, &changes)
                        .map_err(|commit_error| self.not_committed(commit_error))?;
                    if let Some(height) = self.height.get().filter(|_| entries > 0) {
                        height.raise(entries);
                    }
                    if let Some(observer) = observer {
                        observer(appended);
                    }
                    fail_point!("ledger::{what}::after_commit", self.stop("a fail point".to_owned()));
                    Ok(value)
                }
                Ok(Outcome::Nothing(value)) => {
                    transaction.abort().map_err(|error| self.failed(Fail::Store(error.into())))?;
                    Ok(value)
                }
                // Dropping the transaction undoes what it did.
                Err(fail) => Err(self.failed(fail)),
            }
        })
    }

    /// Removes changes that later ones have replaced from the storage's log. The tables pass `check` first, since what is removed
    /// can't be read again.
    #[cfg(feature = "etcd")]
    pub fn compact_log(
        &self,
        check: impl FnOnce(&Database, &Path) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        self.guarded(|| {
            check(&self.db, &self.path)?;
            let transaction = begin_durable(&self.db).map_err(|error| self.failed(Fail::Store(error)))?;
            self.backend
                .compact_log(&transaction)
                .map_err(|commit_error| self.not_committed(commit_error))?;
            transaction.abort().map_err(|error| self.failed(Fail::Store(error.into())))
        })
    }

    /// Runs a transaction unless the store has stopped; a panic inside it stops the store.
    fn guarded<T>(&self, run: impl FnOnce() -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        self.backend.ensure_leader()?;
        if self.stopped.load(Ordering::Acquire) {
            let reason = "an earlier call failed in a way that leaves its outcome open".to_owned();
            return Err(LedgerError::Stopped { path: self.path.clone(), reason });
        }
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(self.stop(format!("the store panicked: {}", panic_text(&*panic)))))
    }

    fn not_committed(&self, commit_error: CommitError) -> LedgerError {
        match commit_error {
            CommitError::Refused(error) => error,
            CommitError::Unknown(reason) => self.stop(reason),
            CommitError::Lost(reason) => {
                let _ = self.stop(reason.clone());
                LedgerError::Unreachable { path: self.path.clone(), reason }
            }
        }
    }

    /// Stops the store, because the content of the disk is not known: nothing more is read or written until the ledger
    /// is opened again.
    pub fn stop(&self, reason: String) -> LedgerError {
        self.stopped.store(true, Ordering::Release);
        tracing::error!(path = %self.path.display(), reason, "the ledger stopped");
        LedgerError::Stopped { path: self.path.clone(), reason }
    }

    fn failed(&self, fail: Fail) -> LedgerError {
        let path = self.path.clone();
        match fail {
            Fail::Refused(error) => error,
            Fail::Store(redb::Error::Corrupted(reason)) => LedgerError::Damaged { path, reason },
            // A disk that failed once may lose later writes without an error.
            Fail::Store(error @ (redb::Error::Io(_) | redb::Error::PreviousIo)) => {
                let _ = self.stop(error.to_string());
                LedgerError::Io { path, reason: error.to_string() }
            }
            Fail::Store(error) => LedgerError::Io { path, reason: error.to_string() },
            Fail::Record(reason) => {
                LedgerError::Damaged { path, reason: format!("a record can't be read: {reason}") }
            }
        }
    }
}

/// Begins a durable transaction. Every commit is two-phase: redb then never falls back to an earlier commit after a
/// crash, so that a newest commit whose pages are bad is reported as damage instead of being dropped together with its
/// bindings.
pub fn begin_durable(db: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = db.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}
