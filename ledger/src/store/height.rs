//! The height of a ledger: entries of all its chains. An anchor outside of it has the number too, and a ledger with fewer is
//! an older copy.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The place of the digits in an anchor, which begins with them.
const DIGITS_AT: u64 = b"{\"height\":\"".len() as u64;
/// As many as the largest number has: they are written over in place.
const DIGITS: usize = 20;

/// The height in an anchor, which follows the ledger after every change. It is not forced to the disk: after a power cut it
/// may be an earlier one, which proves less, and nothing that is wrong.
pub struct Height {
    anchor: File,
    path: PathBuf,
    /// Locked until the number is written: a lower one never follows a higher one.
    entries: Mutex<u64>,
    on_replaced: Box<dyn Fn() + Send + Sync>,
}

impl Height {
    /// Opens the anchor at `path`, whose ledger has `entries`. `on_replaced` is called at every change and every look once the file has
    /// lost its name: another copy of the ledger has an anchor of its own there.
    pub fn open(
        path: &Path,
        entries: u64,
        on_replaced: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let anchor = OpenOptions::new().write(true).open(path)?;
        let path = path.to_owned();
        Ok(Self { anchor, path, entries: Mutex::new(entries), on_replaced: Box::new(on_replaced) })
    }

    /// Writes a height that is higher by `more`.
    pub fn raise(&self, more: u64) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        *entries += more;
        // What can't be written proves nothing later; the change itself is in the ledger.
        let _ = self.anchor.write_all_at(digits(*entries).as_bytes(), DIGITS_AT);
        drop(entries);
        self.look();
    }

    /// Calls `on_replaced` where the file has lost its name. A folder that was moved with the file in it has not.
    pub fn look(&self) {
        let Ok(own) = self.anchor.metadata() else { return };
        // A backup by hard links keeps a file alive that has lost its own name.
        let is_other = |named: fs::Metadata| (named.dev(), named.ino()) != (own.dev(), own.ino());
        if own.nlink() == 0 || fs::metadata(&self.path).is_ok_and(is_other) {
            (self.on_replaced)();
        }
    }
}

fn digits(height: u64) -> String {
    format!("{height:0DIGITS$}")
}

/// A height as an anchor has it: digits in a text of one length.
pub mod as_digits {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes the digits.
    pub fn serialize<S: Serializer>(height: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::digits(*height))
    }

    /// Reads them. Error: other than digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::custom(format!("height is {text:?}; allowed: digits")))
    }
}
