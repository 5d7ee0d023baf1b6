//! A store together with who acts on it.

use std::{path::Path, sync::Arc};

use redb::ReadTransaction;

use super::{Observer, Outcome, Store, height::Height, recording::RecordingTransaction};
use crate::{
    LedgerError,
    chain::stamp::{Clock, Principal, Stamp},
    error::Fail,
};

/// A store on which one principal acts: every entry that is appended through it says who and when. Clones share the store.
#[derive(Clone)]
pub struct ActingStore {
    store: Arc<Store>,
    by: Principal,
    clock: Clock,
}

impl ActingStore {
    /// Returns the store, on which this process itself acts.
    pub fn new(store: Store) -> Self {
        Self { store: Arc::new(store), by: Principal::local(), clock: Clock::of_system() }
    }

    /// Returns the same store, on which `by` acts.
    pub fn acting_as(&self, by: Principal) -> Self {
        Self { by, ..self.clone() }
    }

    /// Returns the same store with another clock.
    pub fn with_clock(&self, clock: Clock) -> Self {
        Self { clock, ..self.clone() }
    }

    /// Returns who acts.
    pub fn principal(&self) -> &Principal {
        &self.by
    }

    /// Returns the store's path, as [`Store::path`] does.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// Keeps the height in an anchor up to date, as [`Store::follow`] does.
    pub fn follow(&self, height: Height) {
        self.store.follow(height);
    }

    /// Looks whether the anchor has been replaced, as [`Store::look_at_anchor`] does.
    pub fn look_at_anchor(&self) {
        self.store.look_at_anchor();
    }

    /// Has the observer hear of every entry, as [`Store::observe`] does.
    pub fn observe(&self, observer: Observer) {
        self.store.observe(observer);
    }

    /// Runs a transaction as [`Store::read`] does.
    pub fn read<T>(&self, body: impl FnOnce(&ReadTransaction) -> Result<T, Fail>) -> Result<T, LedgerError> {
        self.store.read(body)
    }

    /// Runs a transaction as [`Store::write`] does, with who acts and the time.
    pub fn write<T>(
        &self,
        what: &'static str,
        body: impl FnOnce(&RecordingTransaction<'_>) -> Result<Outcome<T>, Fail>,
    ) -> Result<T, LedgerError> {
        let stamp = Stamp { by: self.by.clone(), at_ms: self.clock.now_ms() };
        self.store.write(what, stamp, body)
    }

    /// Compacts the log as [`Store::compact_log`] does.
    #[cfg(feature = "etcd")]
    pub fn compact_log(
        &self,
        check: impl FnOnce(&redb::Database, &Path) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        self.store.compact_log(check)
    }

    /// Stops the store as [`Store::stop`] does.
    pub fn stop(&self, reason: String) -> LedgerError {
        self.store.stop(reason)
    }
}
