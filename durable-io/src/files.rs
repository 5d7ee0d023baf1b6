//! Folders and files that only their owner may read, and names that survive a power cut.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::fail_point;

/// Creates the folder and those above it that are missing, durably, with mode 0700. A folder that exists keeps its
/// mode.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    missing.into_iter().try_for_each(|folder| sync_folder(folder_of(folder)))
}

/// Creates a file with mode 0600. Fails where one exists.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Removes the rights of group and others from the file.
pub fn make_private(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Makes the names in `folder` durable: what was created, renamed or removed there before.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    fail_point!("folder::sync", io::Error::other("a fail point"));
    File::open(folder)?.sync_all()
}

/// Returns the folder that holds `path`: `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux refuses to sync a folder of /proc: the only visible sign that a sync was requested.
    #[test]
    fn a_folder_that_cant_be_synced_is_an_error() {
        let error = sync_folder(Path::new("/proc")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        sync_folder(tempfile::tempdir().unwrap().path()).unwrap();
    }
}
