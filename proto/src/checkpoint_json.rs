//! JSON of a checkpoint's pieces, in manifests and ledgers: a mirror, so that the type of messages can change without
//! it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{CoordinateRange, hex_digest, model::CheckpointPiece};

#[derive(Serialize, Deserialize)]
struct StoredPiece {
    object: String,
    range: CoordinateRange,
    next_row: u64,
    #[serde(with = "hex_digest")]
    sha256: [u8; 32],
}

pub fn serialize<S: Serializer>(pieces: &[CheckpointPiece], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pieces.iter().map(|piece| {
        let CheckpointPiece { object, range, next_row, sha256 } = piece.clone();
        StoredPiece { object, range, next_row, sha256 }
    }))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CheckpointPiece>, D::Error> {
    let stored = Vec::<StoredPiece>::deserialize(deserializer)?.into_iter();
    Ok(stored
        .map(|StoredPiece { object, range, next_row, sha256 }| CheckpointPiece {
            object,
            range,
            next_row,
            sha256,
        })
        .collect())
}
