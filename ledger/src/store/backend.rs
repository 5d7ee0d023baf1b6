//! The interface between the ledger's rules and its storage.
//!
//! Rules read and write the tables of one database, whatever its storage. A [`Backend`] makes the changes of a
//! transaction durable, all or none, and knows whether this process is still the one that may change the ledger.

use redb::WriteTransaction;

use crate::{LedgerError, wire::change::Change};

/// The storage that makes transactions durable.
pub trait Backend: Send + Sync {
    /// Checks that this process leads the ledger. Error: another process may lead by now, or soon.
    fn ensure_leader(&self) -> Result<(), LedgerError>;

    /// Returns whether [`Backend::commit`] needs a list of changes; a file needs the transaction alone.
    fn wants_changes(&self) -> bool;

    /// Returns once the changes are durable. Until then no caller may hear of them.
    fn commit(&self, transaction: WriteTransaction, changes: &[Change]) -> Result<(), CommitError>;

    /// Removes changes that later ones have replaced, where the storage keeps a log of them. `transaction` reads the tables.
    #[cfg(feature = "etcd")]
    fn compact_log(&self, _transaction: &WriteTransaction) -> Result<(), CommitError> {
        Ok(())
    }
}

/// The reason why changes are not known to be durable.
pub enum CommitError {
    /// Nothing was changed, and nothing will be.
    Refused(LedgerError),
    /// The changes may be durable or not: the next opening of the ledger finds out.
    Unknown(String),
    /// The changes may be durable or not, and another process may lead by now: the same call there finds out.
    Lost(String),
}

/// The default backend: redb's own file, written by its commit. The file's lock decides which process may change it.
pub struct FileBackend;

impl Backend for FileBackend {
    fn ensure_leader(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    fn wants_changes(&self) -> bool {
        false
    }

    fn commit(&self, transaction: WriteTransaction, _changes: &[Change]) -> Result<(), CommitError> {
        transaction.commit().map_err(|error| CommitError::Unknown(format!("a commit failed: {error}")))
    }
}
