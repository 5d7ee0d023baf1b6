//! The lease that a ledger's anchor in a checkpoint store gives: while it lasts, no other process takes up a copy that agrees
//! with the anchor.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::{LedgerError, Result};

/// The lease of one process on one anchor. Without it the ledger binds nothing; with it again, it binds again.
pub struct StoreLease {
    store: String,
    now: fn() -> Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    until: Option<Instant>,
    trouble: Option<String>,
    was_held: bool,
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
    /// Creates a lease that has not begun, of the anchor in the store with this URL. `now` is its clock.
    pub(super) fn new(store: String, now: fn() -> Instant) -> Self {
        Self { store, now, state: Mutex::default() }
    }

    /// Prolongs the lease: no other process takes a copy up before `until`.
    pub fn prolong(&self, until: Instant) {
        *self.state() = State { until: Some(until), trouble: None, was_held: true };
    }

    /// Notes why the anchor was not renewed. The lease lasts as long as it was given for.
    pub fn note(&self, trouble: String) {
        self.state().trouble = Some(trouble);
    }

    /// Ends the lease: nothing more is bound.
    pub fn end(&self) {
        self.state().until = None;
    }

    /// Returns whether the lease lasts.
    pub fn is_held(&self) -> bool {
        self.state().is_leased((self.now)())
    }

    /// Returns whether the lease was held at any time.
    pub(super) fn was_held(&self) -> bool {
        self.state().was_held
    }

    /// Returns why the latest renewal failed; `None` where it did not.
    pub fn trouble(&self) -> Option<AnchorTrouble> {
        let state = self.state();
        let reason = state.trouble.clone()?;
        Some(AnchorTrouble { store: self.store.clone(), reason, is_leased: state.is_leased((self.now)()) })
    }

    pub(super) fn check(&self) -> Result<()> {
        let state = self.state();
        if state.is_leased((self.now)()) {
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
    fn is_leased(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_lasts_as_long_as_it_was_given_for() {
        const LONG: Duration = Duration::from_secs(3600);
        let lease = StoreLease::new("file:///store".to_owned(), Instant::now);
        let is_refused = || matches!(lease.check(), Err(LedgerError::Unanchored { .. }));
        assert!(is_refused() && !lease.was_held(), "before it has begun");
        lease.prolong(Instant::now() + LONG);
        lease.check().unwrap();
        lease.note("silent".to_owned());
        lease.check().unwrap();
        assert!(lease.trouble().unwrap().is_leased);
        lease.prolong(Instant::now());
        assert!(is_refused() && lease.was_held(), "its time is over");
        lease.note("silent".to_owned());
        assert!(!lease.trouble().unwrap().is_leased);
        lease.prolong(Instant::now() + LONG);
        assert!(lease.trouble().is_none());
        lease.end();
        assert!(is_refused());
    }
}
