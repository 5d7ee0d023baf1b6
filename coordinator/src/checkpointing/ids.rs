//! Numbers of checkpoints, unique across failures and restarts.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number holds the coordinator's epoch above these bits, and below them a count of the checkpoints it has begun: 16
/// million each, more than one a second for half a year.
const EPOCH_SHIFT: u32 = 24;

/// Hands out the checkpoint numbers of one coordinator.
#[derive(Debug)]
pub struct CheckpointIds {
    epoch: u64,
    begun: AtomicU64,
}

impl CheckpointIds {
    /// Creates the source of numbers for a coordinator epoch.
    pub fn new(epoch: u64) -> Self {
        Self { epoch, begun: AtomicU64::new(0) }
    }

    /// Returns a number that no other checkpoint has, also after a failure and a restart, so that a late write of an
    /// abandoned piece overwrites nothing.
    pub fn next(&self) -> u64 {
        let count = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.epoch.saturating_mul(1 << EPOCH_SHIFT).saturating_add(count)
    }

    /// Returns whether a checkpoint was begun by a coordinator after this one.
    pub fn is_of_later_epoch(&self, checkpoint: u64) -> bool {
        checkpoint >> EPOCH_SHIFT > self.epoch
    }
}
