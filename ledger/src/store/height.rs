//! The height of a ledger: entries of all its chains. An anchor outside of it has the number too, and a ledger with fewer is
//! an older copy.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// The place of the digits in an anchor, which begins with them.
const DIGITS_AT: u64 = b"{\"height\":\"".len() as u64;
/// As many as the largest number has: they are written over in place.
const DIGITS: usize = 20;

/// The height in an anchor, which follows the ledger after every change. It is not forced to the disk: after a power cut it
/// may be an earlier one, which proves less, and nothing that is wrong.
pub struct Height {
    anchor: File,
    entries: AtomicU64,
}

impl Height {
    /// Opens the anchor at `path`, whose ledger has `entries`.
    pub fn open(path: &Path, entries: u64) -> io::Result<Self> {
        Ok(Self { anchor: OpenOptions::new().write(true).open(path)?, entries: entries.into() })
    }

    /// Writes a height that is higher by `more`.
    pub fn raise(&self, more: u64) {
        let entries = self.entries.fetch_add(more, Ordering::Relaxed) + more;
        // What can't be written proves nothing later; the change itself is in the ledger.
        let _ = self.anchor.write_all_at(digits(entries).as_bytes(), DIGITS_AT);
    }
}

/// Returns a height as an anchor has it.
pub fn digits(height: u64) -> String {
    format!("{height:0DIGITS$}")
}
