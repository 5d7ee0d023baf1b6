//! The seam between the ledger's rules and what keeps it.
//!
//! All rules lie above: they read and write the tables of one database, whatever keeps it. A [`Backend`] makes what a
//! transaction changed durable, all of it or nothing, and knows whether this process may still speak for the ledger.

use redb::WriteTransaction;

use crate::{LedgerError, wire::change::Change};

pub trait Backend: Send + Sync {
    /// Error: another process may speak for the ledger by now, or soon.
    fn is_leader(&self) -> Result<(), LedgerError>;

    /// Whether [`Backend::commit`] wants to be told of every change; the transaction alone is enough for a file.
    fn wants_changes(&self) -> bool;

    /// Returns once the changes are durable, and only then may anyone be told of them.
    fn commit(&self, transaction: WriteTransaction, changes: &[Change]) -> Result<(), CommitError>;
}

/// Why changes are not known to be durable.
pub enum CommitError {
    /// Nothing was changed, and nothing will be.
    Refused(LedgerError),
    /// They may be durable or not: whoever opens the ledger next finds out.
    Unknown(String),
    /// As [`CommitError::Unknown`], and another process may speak for the ledger by now: the same call there finds out.
    Lost(String),
}

/// The default: redb's own file, written by its commit. The file's lock says who may speak.
pub struct FileBackend;

impl Backend for FileBackend {
    fn is_leader(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    fn wants_changes(&self) -> bool {
        false
    }

    fn commit(&self, transaction: WriteTransaction, _changes: &[Change]) -> Result<(), CommitError> {
        transaction.commit().map_err(|error| CommitError::Unknown(format!("a commit failed: {error}")))
    }
}
