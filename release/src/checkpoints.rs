//! Checkpoints: their numbers, which of them a shard may be restored from, and which may be deleted.

use std::sync::atomic::{AtomicU64, Ordering};

use ledger::JobRecord;
use proto::{CheckpointRecord, model::CheckpointPiece};

/// The bits of a checkpoint's number below the epoch: 16 million checkpoints in one epoch.
const EPOCH_SHIFT: u32 = 24;

/// The numbers of the checkpoints that one epoch begins.
///
/// A number is never used twice, also after a failure and a restart, so that a late write of an abandoned piece
/// overwrites nothing.
#[derive(Debug)]
pub struct CheckpointIds {
    epoch: u64,
    begun: AtomicU64,
}

impl CheckpointIds {
    /// Begins to count in `epoch`, which is above that of every earlier writer.
    pub fn new(epoch: u64) -> Self {
        Self { epoch, begun: AtomicU64::new(0) }
    }

    /// Returns a number that no other checkpoint has.
    pub fn next(&self) -> u64 {
        let count = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.epoch.saturating_mul(1 << EPOCH_SHIFT).saturating_add(count)
    }

    /// Returns whether a later epoch began this checkpoint: its writer may still be at work.
    pub fn is_of_later_epoch(&self, id: u64) -> bool {
        id >> EPOCH_SHIFT > self.epoch
    }
}

/// Describes a checkpoint whose pieces are all written. Its next row is that of the piece that is furthest behind.
pub fn record(job: &JobRecord, id: u64, bytes: u64, pieces: Vec<CheckpointPiece>) -> CheckpointRecord {
    CheckpointRecord {
        job: job.job.clone(),
        id,
        branch: job.branch,
        plan_digest: job.plan_digest,
        next_row: pieces.iter().map(|piece| piece.next_row).min().unwrap_or(0),
        bytes,
        pieces,
    }
}

/// Returns whether shards of the job may be restored from this checkpoint: it is of the job's plan and holds no row of
/// a branch that the job has left.
pub fn is_usable(checkpoint: &CheckpointRecord, job: &JobRecord) -> bool {
    let continues = |piece: &CheckpointPiece| job.lineage.continues(checkpoint.branch, piece.next_row);
    checkpoint.plan_digest == job.plan_digest && checkpoint.pieces.iter().all(continues)
}

/// Returns the checkpoints that may be deleted where the newest `keep` stay. `oldest_first` is sorted by age.
pub fn expired(oldest_first: &[CheckpointRecord], keep: usize) -> &[CheckpointRecord] {
    &oldest_first[..oldest_first.len().saturating_sub(keep)]
}
