//! Anchors: small files outside of a ledger that name its latest taking up, and how far its chains had grown. An older copy
//! of the ledger in its place names an earlier one, or is shorter.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use durable_io::{create_private_file, folder_of, sync_folder};
use proto::Nonce;
use serde::{Deserialize, Serialize};

use crate::store::height::as_digits;

use super::file_identity::FileIdentity;

/// The contents of an anchor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// Entries of all chains of the ledger, at least. First, so that [`crate::store::height`] writes over its digits.
    #[serde(with = "as_digits")]
    height: u64,
    /// The ledger's id.
    pub ledger: Nonce,
    /// The ledger's latest opening.
    pub opening: Nonce,
    /// The opening before; present until the ledger has this one too, which is before anything is bound.
    before: Option<Nonce>,
    is_settled: bool,
    /// The ledger's file at that opening.
    pub file: Option<FileIdentity>,
    /// The id under which a copy of the ledger continues.
    pub adopted_as: Option<Nonce>,
}

impl Anchor {
    /// Returns the anchor of a ledger that does not have `opening` yet: until it does, `before` is right too.
    pub fn announcing(ledger: Nonce, opening: Nonce, before: Option<Nonce>, height: u64) -> Self {
        Self { height, ledger, opening, before, is_settled: false, file: None, adopted_as: None }
    }

    /// Returns the anchor of a ledger in this file.
    pub fn of_file(self, file: Option<FileIdentity>) -> Self {
        Self { file, ..self }
    }

    /// Returns the anchor of a ledger of which a copy continues under the id `adopted_as`.
    pub fn superseded(self, adopted_as: Nonce) -> Self {
        Self { adopted_as: Some(adopted_as), ..self }
    }

    /// Returns the anchor once the ledger has the opening, and so many entries.
    pub fn settled(self, height: u64) -> Self {
        Self { height, before: None, is_settled: true, ..self }
    }

    /// Returns whether a ledger whose latest opening is `known` is the one that this was written for.
    pub fn agrees(&self, known: Option<Nonce>) -> bool {
        known == Some(self.opening) || (!self.is_settled && known == self.before)
    }

    /// Returns how many entries the ledger's chains have, at least.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// Reads the anchor at `path`. Error: there is a file that can't be read, or that is none.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => {
                let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                serde_json::from_slice(&bytes).map(Some).map_err(invalid)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the anchor so that it has its name only once it is whole and on disk. The ledger's lock keeps others away.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let draft = path.with_file_name(name);
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = create_private_file(&draft)?;
        file.write_all(serde_json::to_string(self)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        sync_folder(folder_of(path))
    }
}

/// Returns the path of a ledger's anchor beside a file: one key may serve several ledgers.
pub fn anchor_path(beside: &Path, ledger: &Nonce) -> PathBuf {
    let mut name = beside.file_name().unwrap_or_default().to_owned();
    name.push(format!(".anchor-{}", hex::encode(&ledger.as_bytes()[..8])));
    beside.with_file_name(name)
}

/// Returns an anchor of another ledger that was in this file or, where the file has the name of a run's ledger, one beside the
/// run's key: that ledger knew what was released.
pub fn anchor_of_earlier(ledger: &Path) -> io::Result<Option<PathBuf>> {
    let name = ledger.file_name().unwrap_or_default().to_string_lossy();
    let is_of_run = name == "ledger.redb";
    let entries = match fs::read_dir(folder_of(ledger)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let found = entry.file_name();
        let Some((of, _)) = found.to_str().and_then(|found| found.split_once(".anchor-")) else { continue };
        if of == name || (is_of_run && of == "job.key") {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Returns whether an anchor can't be written because its folder is not to be written to.
pub fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;
    use crate::store::height::Height;

    #[test]
    fn a_height_is_written_over_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anchor");
        let [id, opening] = [Nonce::from_bytes([1; 32]), Nonce::from_bytes([2; 32])];
        let anchor = Anchor::announcing(id, opening, None, 7);
        anchor.write(&path).unwrap();
        let height = Height::open(&path, 7, || ()).unwrap();
        height.raise(0);
        height.raise(2);
        let read = Anchor::read(&path).unwrap().unwrap();
        assert_eq!(read.height(), 9);
        assert_eq!(Anchor { height: anchor.height, ..read }, anchor);
    }

    #[test]
    fn a_height_of_other_than_digits_is_no_anchor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anchor");
        let anchor = Anchor::announcing(Nonce::from_bytes([1; 32]), Nonce::from_bytes([2; 32]), None, 7);
        anchor.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen('7', "x", 1)).unwrap();
        assert_eq!(Anchor::read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_replaced_anchor_is_noticed() {
        check_replaced(false);
        // As a backup by hard links leaves it.
        check_replaced(true);
    }

    fn check_replaced(has_other_name: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anchor");
        let anchor = Anchor::announcing(Nonce::from_bytes([1; 32]), Nonce::from_bytes([2; 32]), None, 7);
        anchor.write(&path).unwrap();
        let noticed = Arc::new(AtomicU64::new(0));
        let count = noticed.clone();
        let height = Height::open(&path, 7, move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        height.raise(1);
        assert_eq!(noticed.load(Ordering::Relaxed), 0);
        if has_other_name {
            fs::hard_link(&path, folder.path().join("backup")).unwrap();
        }
        anchor.write(&path).unwrap();
        height.raise(1);
        assert_eq!((noticed.load(Ordering::Relaxed), Anchor::read(&path).unwrap().unwrap().height()), (1, 7));
    }

    #[test]
    fn an_opening_is_announced_before_the_ledger_has_it() {
        let [id, before, opening, other] = [1, 2, 3, 4].map(|byte| Nonce::from_bytes([byte; 32]));
        let announced = Anchor::announcing(id, opening, Some(before), 0);
        assert!(announced.agrees(Some(before)) && announced.agrees(Some(opening)));
        assert!(!announced.agrees(Some(other)) && !announced.agrees(None));
        let settled = announced.settled(0);
        assert!(settled.agrees(Some(opening)) && !settled.agrees(Some(before)) && !settled.agrees(None));
    }
}
