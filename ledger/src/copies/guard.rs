//! What an open ledger knows of being a copy, and how far its anchor follows it.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use crate::{LedgerError, Result};

use super::anchor::Height;

/// Stops a ledger that was found to be a copy, and tells the anchor of one that is none how far it is. Clones share both.
#[derive(Clone, Default)]
pub struct Guard {
    proof: Arc<OnceLock<LedgerError>>,
    height: Arc<OnceLock<Height>>,
}

impl Guard {
    /// Stops the ledger at `path`. The first proof stays.
    pub fn stop(&self, path: &Path, proof: Proof) {
        let Proof { found, witness } = proof;
        let _ = self.proof.set(LedgerError::Copied { path: path.to_owned(), found, witness });
    }

    /// Begins to tell the anchor.
    pub fn follow(&self, height: Height) {
        let _ = self.height.set(height);
    }

    /// Notes that the ledger's chains have grown by an entry, which is on disk.
    pub fn grown(&self) {
        if let Some(height) = self.height.get() {
            height.raise();
        }
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
