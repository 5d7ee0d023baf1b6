//! The lease that a ledger's anchor in a checkpoint store gives: while it lasts, no other process takes up a copy that agrees
//! with the anchor.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::{LedgerError, Result};

/// The lease of one process on one anchor. The ledger binds nothing without it.
pub struct StoreLease {
    store: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    until: Option<Instant>,
    trouble: Option<String>,
}

/// Why an anchor was not renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorTrouble {
    /// The checkpoint store's URL.
    pub store: String,
    /// What its latest answer was.
    pub reason: String,
    /// Whether the lease still lasts, so that rows are bound all the same.
    pub is_leased: bool,
}

impl StoreLease {
    /// Creates a lease that has not begun, of the anchor in the store with this URL.
    pub(super) fn new(store: String) -> Self {
        Self { store, state: Mutex::default() }
    }

    /// Prolongs the lease: no other process takes a copy up before `until`.
    pub fn prolong(&self, until: Instant) {
        *self.state() = State { until: Some(until), trouble: None };
    }

    /// Notes why the anchor was not renewed. The lease lasts as long as it was given for.
    pub fn note(&self, trouble: String) {
        self.state().trouble = Some(trouble);
    }

    /// Ends the lease: nothing more is bound.
    pub fn end(&self) {
        self.state().until = None;
    }

    /// Returns why the latest renewal failed; `None` where it did not.
    pub fn trouble(&self) -> Option<AnchorTrouble> {
        let state = self.state();
        let reason = state.trouble.clone()?;
        Some(AnchorTrouble { store: self.store.clone(), reason, is_leased: state.is_leased() })
    }

    pub(super) fn check(&self) -> Result<()> {
        let state = self.state();
        if state.is_leased() {
            return Ok(());
        }
        let reason = state.trouble.clone().unwrap_or_else(|| "no renewal was answered in time".to_owned());
        Err(LedgerError::Unanchored { store: self.store.clone(), reason })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_leased(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}
