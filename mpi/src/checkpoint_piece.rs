//! One rank's piece of a checkpoint: written by the rank that owns the shard, reported to the first rank in 56 bytes.

use noise_worker::{Snapshot, shard_runner::ShardRunner};
use proto::{CheckpointRecord, piece_object};
use proto::{CoordinateRange, JobId, Result, model::CheckpointPiece};

/// The length of a report in bytes.
pub const BYTES: usize = 56;

/// The piece that a rank wrote; zeros where it could not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PieceResult {
    pub is_whole: bool,
    pub next_row: u64,
    pub bytes: u64,
    pub sha256: [u8; 32],
}

impl PieceResult {
    pub fn new(snapshot: &Result<Snapshot>) -> Self {
        match snapshot {
            Ok(Snapshot { next_row, written, .. }) => {
                Self { is_whole: true, next_row: *next_row, bytes: written.bytes, sha256: written.sha256 }
            }
            Err(_) => Self::default(),
        }
    }

    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&u64::from(self.is_whole).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.next_row.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[24..].copy_from_slice(&self.sha256);
        bytes
    }

    pub fn decode(bytes: &[u8; BYTES]) -> Self {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let sha256 = std::array::from_fn(|index| bytes[24 + index]);
        Self { is_whole: number(0) == 1, next_row: number(8), bytes: number(16), sha256 }
    }

    /// Returns the piece as the ledger lists it; `None` where it could not be written.
    pub fn piece(&self, job: &JobId, id: u64, range: CoordinateRange) -> Option<CheckpointPiece> {
        let Self { next_row, sha256, .. } = *self;
        let object = piece_object(job, id, range);
        self.is_whole.then_some(CheckpointPiece { object, range, next_row, sha256 })
    }
}

/// Writes this rank's piece. A failure is logged here, where its reason is known.
pub async fn write(runner: &ShardRunner, id: u64) -> Result<Snapshot> {
    let grant = runner.grant();
    let written = runner.snapshot(&piece_object(&grant.job, id, grant.range)).await;
    written.inspect_err(|error| {
        tracing::warn!(job = %grant.job, shard = grant.shard, id, %error, "a piece of a checkpoint failed");
    })
}

/// Logs what became of a checkpoint, and returns its number where it was published.
pub fn log_published(record: anyhow::Result<CheckpointRecord>) -> Option<u64> {
    match record {
        Ok(CheckpointRecord { job, id, next_row, bytes, .. }) => {
            tracing::info!(%job, id, next_row, bytes, "checkpoint written");
            Some(id)
        }
        Err(error) => {
            tracing::warn!(%error, "checkpoint failed; the one before stays the newest");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_survives_the_wire() {
        let written = PieceResult { is_whole: true, next_row: 7, bytes: 1 << 40, sha256: [3; 32] };
        assert_eq!(PieceResult::decode(&written.encode()), written);
        assert_eq!(PieceResult::decode(&[0; BYTES]), PieceResult::default());
        assert!(
            PieceResult::default()
                .piece(&JobId::new("j").unwrap(), 1, CoordinateRange { start: 0, end: 1 })
                .is_none()
        );
    }
}
