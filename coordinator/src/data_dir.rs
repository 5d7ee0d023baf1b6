//! The data folder: private, and bound to one ledger.

#[cfg(feature = "etcd")]
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use ledger::{Ledger, LedgerError};
use proto::{JobId, Nonce};

/// The file that names the ledger in etcd that this data folder belongs to.
const ETCD_LEDGER: &str = "etcd-ledger";

/// The file with what this data folder has seen of that ledger.
#[cfg(feature = "etcd")]
const ETCD_LEDGER_SEEN: &str = "etcd-ledger.seen";

/// Creates the data folder, which only this user may read: it says which row was bound to what.
pub fn create_data_dir(folder: &Path) -> anyhow::Result<()> {
    let folder_error = || format!("data folder {}", folder.display());
    durable_io::create_private_folder(folder).with_context(folder_error)
}

/// Returns the ledger's file in a coordinator's data folder.
pub fn ledger_file(folder: &Path) -> PathBuf {
    folder.join("ledger.redb")
}

/// Compares a ledger in etcd with what the data folder has seen of it, calls `open`, and lets the folder see what follows.
#[cfg(feature = "etcd")]
pub fn open_seen<T>(
    folder: &Path,
    ledger: &Ledger,
    open: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let seen = folder.join(ETCD_LEDGER_SEEN);
    ledger.compare_with_seen(&seen)?;
    let opened = open()?;
    if ledger.copied().is_none() {
        // With the epoch that was taken meanwhile.
        ledger.keep_seen(&seen)?;
    }
    Ok(opened)
}

/// Begins a ledger in a coordinator's data folder, which is created, and returns the ledger's id.
///
/// # Errors
/// There is a ledger, or an anchor or a checkpoint of an earlier one, or the folder belongs to a ledger in etcd.
pub fn init_ledger(folder: &Path) -> anyhow::Result<Nonce> {
    create_data_dir(folder)?;
    let other = folder.join(ETCD_LEDGER);
    ensure!(
        !other.exists(),
        "{} says that this data folder belongs to a ledger in etcd; allowed: another folder, or the coordinator's --store",
        other.display()
    );
    let path = ledger_file(folder);
    if let Some(trace) = checkpoint_of_earlier(folder)?.filter(|_| !path.exists()) {
        return Err(LedgerError::Lost { path, trace }.into());
    }
    let id = node::process::rng::nonce()?;
    Ledger::init(&path, id)?;
    Ok(id)
}

/// Returns what an earlier ledger left where its checkpoints are by default.
fn checkpoint_of_earlier(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let checkpoints = folder.join("checkpoints");
    let entries = match std::fs::read_dir(&checkpoints) {
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries.with_context(|| checkpoints.display().to_string())?,
    };
    Ok(entries.flatten().map(|entry| entry.path()).find(|path| is_of_a_ledger(path)))
}

/// Returns whether this is an anchor or has checkpoints of a job. A volume of its own has entries of the system's too, such as
/// `lost+found`.
fn is_of_a_ledger(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let has_files = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    name.starts_with("ledger-") || JobId::new(name).is_ok() && has_files()
}

/// Binds the data folder to one ledger in etcd. Fails if it has served another: rows released there may not be known
/// here.
#[cfg(feature = "etcd")]
pub fn check_data_dir(folder: &Path, ledger: Nonce) -> anyhow::Result<()> {
    let ledger = ledger.to_string();
    create_data_dir(folder)?;
    let file = ledger_file(folder);
    ensure!(
        !file.exists(),
        "{} is the ledger of jobs that the store does not know; move it away, or leave out --store",
        file.display()
    );
    let path = folder.join(ETCD_LEDGER);
    match std::fs::read_to_string(&path) {
        Ok(known) => ensure!(
            known.trim() == ledger,
            "the store holds ledger {ledger}, and {} says {}: this is another cluster's store, or etcd was set up \
             anew; check --store, or remove the file once you know that no job of the old ledger continues",
            path.display(),
            known.trim()
        ),
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => {
            write_whole(&path, &ledger).with_context(|| path.display().to_string())?;
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    }
    Ok(())
}

/// Writes a file so that it has its name only once it is complete and on disk: an empty one would name another ledger.
#[cfg(feature = "etcd")]
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let draft = path.with_extension("new");
    durable_io::crash_point("etcd_ledger::create::begin");
    let mut file = std::fs::File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    durable_io::crash_point("etcd_ledger::create::written");
    file.sync_all()?;
    durable_io::crash_point("etcd_ledger::create::before_rename");
    std::fs::rename(&draft, path)?;
    durable_io::crash_point("etcd_ledger::create::after_rename");
    std::fs::File::open(folder)?.sync_all()?;
    durable_io::crash_point("etcd_ledger::create::end");
    Ok(())
}

#[cfg(all(test, feature = "etcd"))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_ledger() {
        let folder = tempfile::tempdir().unwrap();
        let [own, foreign] = [Nonce::from_bytes([0xaa; 32]), Nonce::from_bytes([0xbb; 32])];
        check_data_dir(folder.path(), own).unwrap();
        check_data_dir(folder.path(), own).unwrap();
        let other = check_data_dir(folder.path(), foreign).unwrap_err().to_string();
        assert!(other.contains(&own.to_string()) && other.contains(&foreign.to_string()), "{other}");
        std::fs::write(folder.path().join("ledger.redb"), "").unwrap();
        let file = check_data_dir(folder.path(), own).unwrap_err().to_string();
        assert!(file.contains("ledger.redb"), "{file}");
    }
}
