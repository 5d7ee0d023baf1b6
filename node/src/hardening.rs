//! What a process that holds secrets does about itself at its start.

use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardening {
    /// For debugging: its memory can be read by this user's debuggers, and is written to disk when it crashes.
    pub allow_core_dumps: bool,
    /// All memory stays out of swap. Needs RLIMIT_MEMLOCK to hold state and rows.
    pub lock_memory: bool,
}

impl Hardening {
    /// Call before any key is read.
    pub fn apply(self) -> io::Result<()> {
        if !self.allow_core_dumps {
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
            // Nor by ptrace or /proc/PID/mem of another process of this user.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        }
        if self.lock_memory {
            mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{dumpable_behavior, getrlimit};

    use super::*;

    #[test]
    fn a_hardened_process_cannot_be_dumped() {
        Hardening { allow_core_dumps: true, lock_memory: false }.apply().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        Hardening::default().apply().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
    }
}
