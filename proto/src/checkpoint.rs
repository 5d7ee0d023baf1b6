//! A checkpoint of a whole job, and the pieces it is made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    CoordinateRange, InvalidValue, JobId, checkpoint_json,
    checkpoint_names::{PieceName, piece_object},
    hex_digest,
    model::CheckpointPiece,
};

/// One checkpoint of a whole job. Its JSON is the manifest, and the ledger's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// The job.
    pub job: JobId,
    /// The checkpoint's number, unique for the job.
    pub id: u64,
    /// The job's branch when the checkpoint was taken.
    pub branch: u64,
    /// Digest of the job's plan.
    #[serde(with = "hex_digest")]
    pub plan_digest: [u8; 32],
    /// The lowest next row of all pieces.
    pub next_row: u64,
    /// Bytes of all pieces together.
    pub bytes: u64,
    /// The pieces, which together cover the vector.
    #[serde(with = "checkpoint_json")]
    pub pieces: Vec<CheckpointPiece>,
}

/// Returns the pieces that hold a part of `range`.
pub fn pieces_for(record: &CheckpointRecord, range: CoordinateRange) -> Vec<CheckpointPiece> {
    record.pieces.iter().filter(|piece| piece.range.intersection(&range).is_some()).cloned().collect()
}

/// Groups pieces by the checkpoint that they belong to, newest first. A piece with a name of another form is left out.
pub fn pieces_by_checkpoint(pieces: &[CheckpointPiece]) -> Vec<(u64, Vec<CheckpointPiece>)> {
    let mut by_id = BTreeMap::<u64, Vec<CheckpointPiece>>::new();
    for piece in pieces {
        if let Ok(name) = PieceName::parse(&piece.object) {
            by_id.entry(name.id).or_default().push(piece.clone());
        }
    }
    by_id.into_iter().rev().collect()
}

/// Checks that every piece lies under its own checkpoint, under the name of its range: deleting one checkpoint never
/// touches another.
pub fn check_pieces(record: &CheckpointRecord) -> Result<(), InvalidValue> {
    for piece in &record.pieces {
        let expected = piece_object(&record.job, record.id, piece.range);
        if piece.object != expected {
            return Err(InvalidValue::new("object", format!("{:?}", piece.object), expected));
        }
    }
    Ok(())
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
