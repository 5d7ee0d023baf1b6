//! This machine: its disk and its memory.

use std::path::Path;

use node::process::disk::DiskSpace;
use node::process::memory::usable_bytes;

use super::{Check, Verdict};
use crate::values::Bytes;

const GIB: u64 = 1 << 30;

/// Looks at the disk of a folder, or of the folder that it would be made in.
pub fn disk(folder: &Path) -> Check {
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    match DiskSpace::of(existing) {
        Ok(space) => of_space(space, folder),
        Err(error) => Check::new(
            "disk",
            Verdict::Bad,
            format!("{}: {error}", folder.display()),
            "name another --data-dir",
        ),
    }
}

fn of_space(space: DiskSpace, folder: &Path) -> Check {
    let what =
        format!("{}: {} of {} free", folder.display(), Bytes(space.free_bytes), Bytes(space.total_bytes));
    let next_step = "make room, or keep checkpoints elsewhere (--checkpoint-url)";
    match space.free_bytes {
        free if free < GIB / 10 => Check::new("disk", Verdict::Bad, what, next_step),
        free if free < GIB || space.free_part() < 0.1 => Check::new("disk", Verdict::Warn, what, next_step),
        _ => Check::ok("disk", what),
    }
}

/// Looks at the memory that a process may use here.
pub fn memory() -> Check {
    match usable_bytes() {
        Some(bytes) if bytes < GIB => {
            let what = format!("{} for every process together", Bytes(bytes));
            Check::new(
                "memory",
                Verdict::Warn,
                what,
                "rustle plan resources computes what a plan's workers need",
            )
        }
        Some(bytes) => Check::ok("memory", format!("{} for every process together", Bytes(bytes))),
        None => Check::new(
            "memory",
            Verdict::Warn,
            "this system does not report it",
            "rustle plan resources computes what is needed",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_judged_as_the_coordinator_does() {
        for (free_bytes, total_bytes, verdict) in [
            (10 * GIB, 100 * GIB, Verdict::Ok),
            (10 * GIB - 1, 100 * GIB, Verdict::Warn),
            (GIB - 1, 2 * GIB, Verdict::Warn),
            (GIB / 20, 2 * GIB, Verdict::Bad),
        ] {
            assert_eq!(of_space(DiskSpace { free_bytes, total_bytes }, Path::new("d")).verdict, verdict);
        }
        assert_eq!(disk(Path::new("/missing/folder")).name, "disk");
    }
}
