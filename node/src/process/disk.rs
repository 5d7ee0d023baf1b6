//! The room on the disk that a folder is on.

use std::io;
use std::path::Path;

/// The room on one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that this process may still write.
    pub free_bytes: u64,
    /// All bytes of the file system.
    pub total_bytes: u64,
}

impl DiskSpace {
    /// Returns the room on the file system of a folder. Blocks, for as long as the file system takes.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let system = rustix::fs::statvfs(folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(system.f_frsize);
        Ok(Self { free_bytes: bytes(system.f_bavail), total_bytes: bytes(system.f_blocks) })
    }

    /// Returns the part that is free, from 0 to 1.
    pub fn free_part(self) -> f64 {
        self.free_bytes as f64 / (self.total_bytes as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_room_within_its_size_and_a_missing_folder_is_an_error() {
        let space = DiskSpace::of(Path::new("/")).unwrap();
        assert!(space.total_bytes > 0 && (0.0..=1.0).contains(&space.free_part()), "{space:?}");
        assert_eq!(DiskSpace { free_bytes: 1, total_bytes: 4 }.free_part(), 0.25);
        assert!(DiskSpace::of(Path::new("/nowhere at all")).is_err());
    }
}
