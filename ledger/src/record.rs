//! What the ledger keeps about jobs, shards and checkpoints.

mod piece;

use std::{collections::BTreeMap, fmt};

use proto::{CoordinateRange, JobId, Lineage, WorkerId, model::CheckpointPiece};
use serde::{Deserialize, Serialize};

use crate::{hex_digest, object::Piece};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Running,
    /// Binds no further row; what is bound may still be fetched.
    Finished,
    /// Releases nothing any more. Its bindings stay, so that its name can't be used for the same rows again.
    Destroyed,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobState::Running => "running",
            JobState::Finished => "finished",
            JobState::Destroyed => "destroyed",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    pub job: JobId,
    pub plan_toml: String,
    #[serde(with = "hex_digest")]
    pub plan_digest: [u8; 32],
    pub dimension: u64,
    pub iterations: u64,
    pub mechanism: String,
    #[serde(with = "hex_digest")]
    pub key_commitment: [u8; 32],
    /// The branch that rows are bound on.
    pub branch: u64,
    /// Whose Z the rows of that branch have.
    #[serde(default)]
    pub lineage: Lineage,
    pub shards: u32,
    /// Rises with every resharding.
    pub layout_epoch: u64,
    pub state: JobState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    pub shard: u32,
    pub range: CoordinateRange,
    /// Rises with every change of owner and never falls, also across resharding.
    pub epoch: u64,
    pub owner: Option<WorkerId>,
}

/// One checkpoint of a whole job; its JSON is the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    pub job: JobId,
    pub id: u64,
    pub branch: u64,
    #[serde(with = "hex_digest")]
    pub plan_digest: [u8; 32],
    pub next_row: u64,
    pub bytes: u64,
    #[serde(with = "piece")]
    pub pieces: Vec<CheckpointPiece>,
}

/// What [`crate::Ledger::create_job`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    New,
    /// The same definition was there already.
    Same,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Rows that no earlier call had bound.
    pub newly: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindingSummary {
    pub rows_bound: u64,
    /// One more than the last bound row, at least the branch's first; rows before it may be unbound where a job
    /// skipped some.
    pub next_row: u64,
    /// Bindings refused for another commitment since this process opened the ledger; not durable.
    pub refused: u64,
}

/// The pieces that hold a part of `range`.
pub fn pieces_for(record: &CheckpointRecord, range: CoordinateRange) -> Vec<CheckpointPiece> {
    record.pieces.iter().filter(|piece| piece.range.intersection(&range).is_some()).cloned().collect()
}

/// Pieces by the checkpoint they belong to, newest first. Those with names that are none of ours belong to none.
pub fn pieces_by_checkpoint(pieces: &[CheckpointPiece]) -> Vec<(u64, Vec<CheckpointPiece>)> {
    let mut by_id = BTreeMap::<u64, Vec<CheckpointPiece>>::new();
    for piece in pieces {
        if let Ok(name) = Piece::parse(&piece.object) {
            by_id.entry(name.id).or_default().push(piece.clone());
        }
    }
    by_id.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, end: u64) -> CheckpointPiece {
        let range = CoordinateRange { start, end };
        CheckpointPiece { object: format!("j/1/{start}-{end}.shard"), range, next_row: 4, sha256: [7; 32] }
    }

    #[test]
    fn a_manifest_is_json_with_hex_digests_and_reads_back() {
        let record = CheckpointRecord {
            job: JobId::new("j").unwrap(),
            id: 1,
            branch: 0,
            plan_digest: [0xab; 32],
            next_row: 4,
            bytes: 10,
            pieces: vec![piece(0, 512), piece(512, 700)],
        };
        let json = serde_json::to_string(&record).unwrap();
        assert!(json.contains(&"ab".repeat(32)) && json.contains(&"07".repeat(32)), "{json}");
        assert_eq!(serde_json::from_str::<CheckpointRecord>(&json).unwrap(), record);

        let overlapping = |start, end| pieces_for(&record, CoordinateRange { start, end });
        assert_eq!(overlapping(0, 512), vec![piece(0, 512)]);
        assert_eq!(overlapping(511, 513).len(), 2);
        assert_eq!(overlapping(700, 800), vec![]);

        let older = CheckpointPiece { object: "j/0/0-512.shard".to_owned(), ..piece(0, 512) };
        let foreign = CheckpointPiece { object: "../0-512.shard".to_owned(), ..piece(0, 512) };
        let mixed = [older.clone(), foreign, piece(0, 512), piece(512, 700)];
        let expected = [(1, vec![piece(0, 512), piece(512, 700)]), (0, vec![older])];
        assert_eq!(pieces_by_checkpoint(&mixed), expected);
    }
}
