//! The protection that a process with secrets sets up at its start.

use std::{fs, io};

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use tracing::warn;

/// The protection of a process that holds secrets. The default allows no core dumps and does not lock memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardening {
    /// For debugging: its memory can be read by this user's debuggers, and is written to disk when it crashes.
    pub allow_core_dumps: bool,
    /// All memory stays out of swap. Needs RLIMIT_MEMLOCK to hold state and rows.
    pub lock_memory: bool,
}

impl Hardening {
    /// Applies the protection. Call it before any key is read.
    pub fn apply(self) -> io::Result<()> {
        if !self.allow_core_dumps {
            forbid_core_files()?;
            // Nor by ptrace or /proc/PID/mem of another process of this user.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        }
        if self.lock_memory {
            mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?;
        }
        Ok(())
    }
}

/// The kernel's setting of which parts of memory a core dump holds.
const CORE_PARTS: &str = "/proc/self/coredump_filter";

/// Disables core dumps alone, for a process whose memory others of this user must reach: ranks under MPI copy from each
/// other's memory
/// (`process_vm_readv`), which the kernel refuses of one that can't be traced. Call before any key is read.
pub fn forbid_cores() -> io::Result<()> {
    forbid_core_files()?;
    // The limit is for files: where cores go to a program, that gets them whatever the limit. Then it gets no memory.
    // A kernel that makes no cores has no such file; in some containers it can't be written.
    if let Err(error) = fs::write(CORE_PARTS, "0")
        && error.kind() != io::ErrorKind::NotFound
    {
        warn!(%error, "{CORE_PARTS} can't be set: a program that takes cores may get this process's memory");
    }
    Ok(())
}

fn forbid_core_files() -> io::Result<()> {
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

#[cfg(test)]
mod tests {
    use rustix::process::{dumpable_behavior, getrlimit};

    use super::*;

    /// All checks are one test, because hardening the process cannot be undone.
    #[test]
    fn a_hardened_process_cannot_be_dumped_and_one_without_cores_can_still_be_traced() {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        Hardening { allow_core_dumps: true, lock_memory: false }.apply().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        assert_ne!(fs::read_to_string(CORE_PARTS).unwrap().trim(), "00000000");
        forbid_cores().unwrap();
        assert_eq!(getrlimit(Resource::Core), none);
        assert_eq!(fs::read_to_string(CORE_PARTS).unwrap().trim(), "00000000");
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        Hardening::default().apply().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(getrlimit(Resource::Core), none);
    }
}
