//! Folders and files that only their owner may read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::fail_points::fail_point;

/// Makes the folder and those above it that are missing, durably, with mode 0700. A folder that exists keeps its mode.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    missing.into_iter().try_for_each(|folder| sync_folder(folder_of(folder)))
}

/// A new file with mode 0600; fails where one exists.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Takes group's and others' rights away.
pub fn make_private(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Makes a new name in `folder` durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    fail_point!("folder::sync", io::Error::other("a fail point"));
    File::open(folder)?.sync_all()
}

/// The folder that holds `path`: `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux syncs no folder of /proc, and says so to whoever asks: no other way shows that anyone has asked.
    #[test]
    fn a_folder_that_cant_be_synced_is_an_error() {
        let told = sync_folder(Path::new("/proc")).unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::InvalidInput, "{told}");
        sync_folder(tempfile::tempdir().unwrap().path()).unwrap();
    }
}
