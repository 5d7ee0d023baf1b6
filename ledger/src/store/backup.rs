//! A copy of a ledger's file, while it is in use or not.
//!
//! A file that is being written may be read half before and half after a change. That shows: redb's checksums cover all that a
//! commit reaches, and the chains of events cover the records. So a copy is read and checked like a ledger that is opened
//! after a power cut, and read again where it fails.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::open::check_copy;
use super::overlay::Overlay;
use crate::LedgerError;

/// Readings, of which one must be whole. Between two commits there are milliseconds, and a ledger of megabytes is read in as many.
const READINGS: usize = 50;

/// Returns the bytes of the ledger at `path`, checked as [`crate::Ledger::open`] checks them.
pub fn backup(path: &Path) -> Result<Vec<u8>, LedgerError> {
    let read = || match fs::read(path) {
        Ok(bytes) => checked(bytes, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(LedgerError::Missing { path: path.to_owned() })
        }
        Err(error) => Err(io_error(path, &error)),
    };
    let mut outcome = read();
    for _ in 1..READINGS {
        match outcome {
            Err(LedgerError::Damaged { .. }) => outcome = read(),
            outcome => return outcome,
        }
    }
    outcome
}

fn checked(bytes: Vec<u8>, path: &Path) -> Result<Vec<u8>, LedgerError> {
    let bytes = Arc::new(bytes);
    let behind = bytes.clone();
    let of_bytes = move |at: u64, piece: &mut [u8]| {
        let at = at as usize;
        piece.copy_from_slice(&behind[at..at + piece.len()]);
        Ok(())
    };
    check_copy(Overlay::new(bytes.len() as u64, of_bytes), path)?;
    Ok(Arc::unwrap_or_clone(bytes))
}

fn io_error(path: &Path, error: &io::Error) -> LedgerError {
    LedgerError::Io { path: path.to_owned(), reason: format!("reading it: {error}") }
}
