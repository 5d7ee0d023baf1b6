//! Detection of changed files, for those that are read anew from time to time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A value that differs once a file's content, mode or owner is another. The time of the last change of any of these says so: a mode
/// that was mended leaves the time of the content as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns the stamp of a file; `None` where there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self { inode: found.ino(), len: found.len(), changed: (found.ctime(), found.ctime_nsec()) })
    }
}
