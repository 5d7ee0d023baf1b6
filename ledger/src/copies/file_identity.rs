//! What identifies a file among its copies.

use std::{fmt, fs, os::unix::fs::MetadataExt, path::Path, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The number of a file and the time of its birth. Both stay as they are when the file is renamed, and when its disk is
/// mounted elsewhere: so no number of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    inode: u64,
    /// Seconds and nanoseconds since 1970, where the file system reports them: numbers of removed files are given to others.
    born: Option<(u64, u32)>,
}

impl FileIdentity {
    /// Reads that of the file at `path`; `None` where there is none, as for a ledger in etcd.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Some(Self { inode: metadata.ino(), born: born.map(|born| (born.as_secs(), born.subsec_nanos())) })
    }

    /// Returns whether the two are known to be different files. A file system without times of birth, as those in user
    /// space, may number one file differently at each mount; one host of several may not get the time.
    pub fn differs_from(self, other: Self) -> bool {
        match (self.born, other.born) {
            (None, None) => false,
            (Some(one), Some(two)) => one != two || self.inode != other.inode,
            _ => self.inode != other.inode,
        }
    }

    /// Returns the bytes that the ledger keeps.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.inode.to_le_bytes());
        if let Some((seconds, nanos)) = self.born {
            bytes[8..16].copy_from_slice(&seconds.to_le_bytes());
            bytes[16..20].copy_from_slice(&nanos.to_le_bytes());
            bytes[20] = 1;
        }
        bytes
    }

    /// Reads what [`FileIdentity::to_bytes`] wrote.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|offset| bytes[at + offset]));
        let nanos = u32::from_le_bytes(std::array::from_fn(|offset| bytes[16 + offset]));
        Self { inode: word(0), born: (bytes[20] == 1).then(|| (word(8), nanos)) }
    }
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.inode)?;
        match self.born {
            Some((seconds, nanos)) => write!(f, ", born {seconds}.{nanos:09}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_differ_by_number_or_birth_where_either_is_known() {
        let file = |inode, born| FileIdentity { inode, born };
        let [here, later] = [Some((5, 6)), Some((5, 7))];
        for (one, two, differs) in [
            (file(1, here), file(1, here), false),
            (file(1, here), file(2, here), true),
            (file(1, here), file(1, later), true),
            (file(1, here), file(1, None), false),
            (file(1, None), file(2, here), true),
            (file(1, None), file(2, None), false),
        ] {
            assert_eq!(one.differs_from(two), differs, "{one} and {two}");
            assert_eq!(FileIdentity::from_bytes(one.to_bytes()), one);
        }
    }
}
