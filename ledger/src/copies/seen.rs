//! What a data folder has seen of a ledger that is kept elsewhere, as in etcd: a restored snapshot has less.

use std::{fs, io, io::Write, path::Path};

use durable_io::{create_private_file, folder_of, sync_folder};
use proto::Nonce;
use serde::{Deserialize, Serialize};

use crate::{
    Ledger, LedgerError, Result,
    store::height::{Height, as_digits},
};

use super::take_up::height;

/// What is to be done: such a ledger is not adopted.
const NEXT: &str = "restore a snapshot that is not older; where there is none, begin a new ledger under another prefix, with an empty \
                    data folder, and account for both: one in etcd can't be adopted";

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// Entries of all chains, at least. First, so that [`crate::store::height`] writes over its digits.
    #[serde(with = "as_digits")]
    height: u64,
    ledger: Nonce,
    /// The highest epoch of a coordinator.
    epoch: u64,
}

impl Ledger {
    /// Compares the ledger with what the file at `path` has seen of it, before anything is bound. One that has fewer entries, or
    /// a lower epoch, is an older copy, which is stopped ([`Ledger::copied`]).
    ///
    /// # Errors
    /// [`LedgerError::Io`] and those of the store.
    pub fn compare_with_seen(&self, path: &Path) -> Result<()> {
        let stop = |found: String| self.stop_as_copy(found, path.display().to_string());
        let seen: Seen = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io_error(path, error)),
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(seen) => seen,
                Err(error) => {
                    stop(format!("what this data folder has seen of it can't be read: {error}"));
                    return Ok(());
                }
            },
        };
        let has = self.store.read(height)?;
        let epoch = self.coordinator_epoch()?;
        if seen.ledger != self.id()? {
            stop("this data folder has seen another ledger".to_owned());
        } else if seen.height > has {
            let seen = seen.height;
            stop(format!("this data folder has seen {seen} entries of its chains, and it has {has}; {NEXT}"));
        } else if seen.epoch > epoch {
            let seen = seen.epoch;
            stop(format!(
                "this data folder has seen coordinator epoch {seen} on it, and it knows {epoch}; {NEXT}"
            ));
        }
        Ok(())
    }

    /// Writes to the file at `path` what there is to be seen of the ledger, and lets the file follow its height from now on.
    ///
    /// # Errors
    /// [`LedgerError::Io`] and those of the store.
    pub fn keep_seen(&self, path: &Path) -> Result<()> {
        let seen =
            Seen { height: self.store.read(height)?, ledger: self.id()?, epoch: self.coordinator_epoch()? };
        let written = write(&seen, path).and_then(|()| Height::open(path, seen.height, || ()));
        self.store.follow(written.map_err(|error| io_error(path, error))?);
        Ok(())
    }
}

/// Writes the file so that it has its name only once it is whole and on disk.
fn write(seen: &Seen, path: &Path) -> io::Result<()> {
    let draft = path.with_extension("seen.new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private_file(&draft)?;
    file.write_all(serde_json::to_string(seen)?.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_folder(folder_of(path))
}

fn io_error(path: &Path, error: io::Error) -> LedgerError {
    LedgerError::Io { path: path.to_owned(), reason: error.to_string() }
}
