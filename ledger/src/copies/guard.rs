//! What an open ledger knows of being a copy.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Instant,
};

use crate::{LedgerError, Result};

use super::store_lease::StoreLease;

/// Stops a ledger that was found to be a copy, and one that may have become one. Clones share what is known.
#[derive(Clone, Default)]
pub struct Guard {
    proof: Arc<OnceLock<LedgerError>>,
    lease: Arc<OnceLock<Arc<StoreLease>>>,
}

impl Guard {
    /// Stops the ledger at `path`. The first proof stays.
    pub fn stop(&self, path: &Path, proof: Proof) {
        let Proof { found, witness } = proof;
        let copied =
            LedgerError::Copied { path: path.to_owned(), found: found.clone(), witness: witness.clone() };
        if self.proof.set(copied).is_ok() {
            tracing::error!(ledger = %path.display(), found, witness, "the ledger may be a copy: nothing is bound");
        }
    }

    /// Lets nothing be bound without a lease of the anchor in this store, from now on.
    pub fn require_lease(&self, store: &str, now: fn() -> Instant) -> Arc<StoreLease> {
        self.lease.get_or_init(|| Arc::new(StoreLease::new(store.to_owned(), now))).clone()
    }

    /// Returns the lease that is required.
    pub fn lease(&self) -> Option<&StoreLease> {
        self.lease.get().map(|lease| &**lease)
    }

    /// Returns the proof that the ledger is a copy.
    pub fn proof(&self) -> Option<LedgerError> {
        self.proof.get().cloned()
    }

    /// Fails where the ledger is a copy, or may have become one: it has no lease of an anchor that it needs.
    pub fn check(&self) -> Result<()> {
        self.proof().map_or(Ok(()), Err)?;
        self.lease().map_or(Ok(()), StoreLease::check)
    }
}

/// Why a ledger is taken for a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// What was found.
    pub found: String,
    /// Where that is written.
    pub witness: String,
}
