//! The folder of a run in this process: its ledger and its key.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ledger::{AnchorPlace, JobState, Ledger, LedgerError};
use node::config::secrets::{KeyError, read_key_file};
use node::process::secret::SecretBytes;
use noise_kernel::JobKey;
use proto::{JobId, Nonce};

use crate::error::{Refused, Result};

/// The name of the key's file.
const KEY: &str = "job.key";
/// The name of the ledger's file.
const LEDGER: &str = "ledger.redb";

/// Reads a named key's file before a folder is begun. Where the folder has a ledger, that may say more of a missing key.
///
/// # Errors
/// A key file that cannot be used. Nothing was written.
pub fn check_named_key(folder: &Path, file: Option<&Path>) -> Result<()> {
    let begins = !folder.join(LEDGER).exists();
    if let Some(file) = file.filter(|_| begins) {
        read_key(file)?;
    }
    Ok(())
}

/// Opens the folder's ledger; begins one with the id `new` where the folder holds nothing of an earlier run.
///
/// # Errors
/// A key without a ledger, a ledger that another process holds, and any that cannot be used.
pub fn open_ledger(folder: &Path, new: Nonce) -> Result<Ledger> {
    let path = folder.join(LEDGER);
    let key = folder.join(KEY);
    // Looked for before the ledger: who begins a folder draws the key last, so that another process which begins it at the
    // same time never finds a key alone.
    let has_key = key.exists();
    if path.exists() {
        return Ok(Ledger::open(&path)?);
    }
    if has_key {
        let message = format!(
            "{} is missing, and {} is of an earlier run, whose ledger knew what was released. Restore the ledger from a \
             copy that is not older than the last row; or take an empty folder; only where no row of that run was ever \
             used, {}begin a new one: rustle ledger init --file {}",
            path.display(),
            key.display(),
            // Beside an anchor none is begun.
            anchor_in(folder).map_or(String::new(), |anchor| format!("move {} away, and ", anchor.display())),
            path.display()
        );
        return Err(Refused::Here("ledger_missing", message));
    }
    match Ledger::init(&path, new) {
        // Another process was faster: its ledger is the folder's.
        Ok(()) | Err(LedgerError::Begun { .. }) => Ok(Ledger::open(&path)?),
        Err(error) => Err(error.into()),
    }
}

/// Returns the anchor that an earlier ledger of the folder left beside the key.
fn anchor_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut anchors = entries.filter(|path| path.to_string_lossy().contains("job.key.anchor-"));
    anchors.next()
}

/// Reads the key from `file`, or from job.key in the folder, which is created where it is missing and the ledger has no
/// job of this name.
///
/// # Errors
/// A key file that cannot be read or created, and a missing one with whose key the job was created.
pub fn key(folder: &Path, file: Option<&Path>, job: &JobId, ledger: &Ledger) -> Result<JobKey> {
    let path = key_path(folder, file);
    check_not_destroyed(job, ledger, &path)?;
    if file.is_none() && !path.exists() {
        check_new(job, ledger, &path)?;
        let not_drawn = |error| Refused::Here("key", format!("key file {}: {error}", path.display()));
        draw_key(&path).map_err(not_drawn)?;
    }
    read_key(&path)
}

fn read_key(path: &Path) -> Result<JobKey> {
    let secret = read_key_file(path).map_err(|error| {
        let text = match error {
            KeyError::NotAFile { .. } => {
                format!("key file {} is not a regular file; allowed: a file of 32 bytes", path.display())
            }
            error => error.to_string(),
        };
        Refused::Here("key", text)
    })?;
    Ok(JobKey::from_bytes(secret.expose_secret())?)
}

/// Returns where a call that names no key keeps the ledger's anchor: beside the folder's own key, or else beside the ledger.
///
/// # Errors
/// A key file that cannot be read.
pub fn anchor_place(folder: &Path) -> Result<AnchorPlace> {
    let key = folder.join(KEY);
    if !key.exists() {
        return Ok(AnchorPlace::of_ledger(&folder.join(LEDGER)));
    }
    Ok(AnchorPlace::of_key(&key, &read_key(&key)?.commitment()))
}

/// Returns the file of the key.
pub fn key_path(folder: &Path, file: Option<&Path>) -> PathBuf {
    file.map_or_else(|| folder.join(KEY), Path::to_owned)
}

/// Refuses a job whose noise was given up for ever.
fn check_not_destroyed(job: &JobId, ledger: &Ledger, path: &Path) -> Result<()> {
    if ledger.job(job)?.is_none_or(|record| record.state != JobState::Destroyed) {
        return Ok(());
    }
    let key = if path.exists() { "is there: delete it unless another job needs it" } else { "was deleted" };
    let text =
        format!("job {job} is destroyed, and its key {} {key}; allowed: an empty folder", path.display());
    Err(Refused::Here("job_state", text))
}

/// Refuses a job that the ledger has: a new key would not be the one that it was created with, and would take its place.
fn check_new(job: &JobId, ledger: &Ledger, path: &Path) -> Result<()> {
    let Some(record) = ledger.job(job)? else { return Ok(()) };
    let message = format!(
        "{} is missing, and job {job} was created with a key. Restore it, or name the file with key_file; its commitment \
         is {}",
        path.display(),
        hex::encode(record.key_commitment)
    );
    Err(Refused::Here("key", message))
}

/// Creates a key file. It appears under its name only when it is whole and durable: a file that was cut short would be
/// refused from then on.
fn draw_key(path: &Path) -> io::Result<()> {
    let key = SecretBytes::<32>::random().map_err(io::Error::other)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    // Under another name first: a file that a killed process leaves behind blocks no later one.
    let mut draft = tempfile::Builder::new();
    let draft = draft.prefix("job.key.new-").permissions(Permissions::from_mode(0o400));
    let mut draft = draft.tempfile_in(folder)?;
    draft.write_all(key.expose_secret())?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(path) {
        // Another process was faster: its key is the folder's.
        Err(refused) if refused.error.kind() != io::ErrorKind::AlreadyExists => Err(refused.error),
        _ => File::open(folder)?.sync_all(),
    }
}
