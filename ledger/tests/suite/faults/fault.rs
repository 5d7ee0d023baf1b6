//! The calls of a disk, and the errors that it fails with.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    SetLen,
    Sync,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// EIO. The pages count as clean then: those that are not on the disk yet never will be (ext4 and XFS; Rebello et
    /// al., ATC'20). The process alone is started anew after it, or the machine too.
    Sync {
        then_power_goes: bool,
    },
    /// ENOSPC, with a part of the write done; `lasts`: until there is room again.
    Full {
        lasts: bool,
    },
    PowerCut,
}

impl Fault {
    pub(super) fn concerns(self, operation: Operation) -> bool {
        match self {
            Fault::Sync { .. } => operation == Operation::Sync,
            Fault::Full { .. } => operation != Operation::Sync,
            Fault::PowerCut => true,
        }
    }
}
