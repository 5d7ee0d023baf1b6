//! The end of a job: no further row is bound, and its key may be deleted.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use proto::JobId;
use pyo3::prelude::*;

use crate::engine::Ending;
use crate::error::{Refused, Result};
use crate::session::Session;

/// Ends the session's job. Returns what can no longer be done, and whether a key is left that was to be deleted.
#[pyfunction]
pub fn finish(py: Python<'_>, session: &Session, destroy_key: bool) -> Result<(String, bool)> {
    let Ending { statement, is_key_left } = session.finish(py, destroy_key)?;
    Ok((statement, is_key_left))
}

/// Returns the ending of a job that is finished.
pub fn of_finished(job: &JobId) -> Ending {
    let statement = format!(
        "job {job} is finished: no further row can be bound, and it can't be resumed or rewound. Rows that are bound can be made \
         again with its key and its ledger"
    );
    Ending { statement, is_key_left: false }
}

/// Returns the ending of a job whose key was deleted.
pub fn of_destroyed(job: &JobId, key: &Path) -> Ending {
    let statement = format!(
        "job {job} is destroyed, and its key {} is deleted: no row of it can be bound, delivered or made again here. Copies of \
         that file, as backups and snapshots of the disk have them, still make all of them",
        key.display()
    );
    Ending { statement, is_key_left: false }
}

/// Refuses a file that has a second name, under which the key would stay.
pub fn check_one_name(path: &Path) -> Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|error| not_deleted(path, &error))?,
    };
    if found.is_symlink() || found.nlink() > 1 {
        let allowed = format!("false where {} has a second name: delete the key by hand", path.display());
        return Err(Refused::invalid("destroy_key", true, allowed));
    }
    Ok(())
}

/// Deletes a key's file, which may be deleted already, durably.
pub fn destroy_key(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let deleted = match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::open(folder).and_then(|folder| folder.sync_all()),
    };
    deleted.map_err(|error| not_deleted(path, &error))
}

fn not_deleted(path: &Path, error: &io::Error) -> Refused {
    Refused::Here(
        "store",
        format!("the key {} was not deleted: {error}. Finish the job again", path.display()),
    )
}
