//! The seam between the ledger's rules and what keeps it.
//!
//! All rules lie above: they read and write the tables of one database, whatever keeps it. A [`Keeper`] makes what a
//! transaction changed durable, all of it or nothing, and knows whether this process may still speak for the ledger.

use redb::WriteTransaction;

use crate::{LedgerError, change::Change};

pub trait Keeper: Send + Sync {
    /// Error: another process may speak for the ledger by now, or soon.
    fn may_speak(&self) -> Result<(), LedgerError>;

    /// Whether [`Keeper::keep`] wants to be told of every change; the transaction alone is enough for a file.
    fn wants_changes(&self) -> bool;

    /// Returns once the changes are durable, and only then may anyone be told of them.
    fn keep(&self, transaction: WriteTransaction, changes: &[Change]) -> Result<(), Unkept>;
}

/// Why changes are not known to be durable.
pub enum Unkept {
    /// Nothing was changed, and nothing will be.
    Refused(LedgerError),
    /// They may be durable or not: whoever opens the ledger next finds out.
    Unknown(String),
    /// As [`Unkept::Unknown`], and another process may speak for the ledger by now: the same call there finds out.
    Lost(String),
}

/// The default: redb's own file, written by its commit. The file's lock says who may speak.
pub struct File;

impl Keeper for File {
    fn may_speak(&self) -> Result<(), LedgerError> {
        Ok(())
    }

    fn wants_changes(&self) -> bool {
        false
    }

    fn keep(&self, transaction: WriteTransaction, _changes: &[Change]) -> Result<(), Unkept> {
        transaction.commit().map_err(|error| Unkept::Unknown(format!("a commit failed: {error}")))
    }
}
