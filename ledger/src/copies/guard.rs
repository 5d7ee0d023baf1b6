//! What an open ledger knows of being a copy.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use crate::{LedgerError, Result};

/// Stops a ledger that was found to be a copy. Clones share the proof.
#[derive(Clone, Default)]
pub struct Guard {
    proof: Arc<OnceLock<LedgerError>>,
}

impl Guard {
    /// Stops the ledger at `path`. The first proof stays.
    pub fn stop(&self, path: &Path, proof: Proof) {
        let Proof { found, witness } = proof;
        let _ = self.proof.set(LedgerError::Copied { path: path.to_owned(), found, witness });
    }

    /// Returns the proof that the ledger is a copy.
    pub fn proof(&self) -> Option<LedgerError> {
        self.proof.get().cloned()
    }

    /// Fails where the ledger is a copy.
    pub fn check(&self) -> Result<()> {
        self.proof().map_or(Ok(()), Err)
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
