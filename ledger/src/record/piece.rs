//! JSON of a checkpoint's pieces: a mirror, so that `proto`'s type stays free of storage formats.

use proto::{CoordinateRange, model::CheckpointPiece};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hex_digest;

#[derive(Serialize, Deserialize)]
struct Stored {
    object: String,
    range: CoordinateRange,
    next_row: u64,
    #[serde(with = "hex_digest")]
    sha256: [u8; 32],
}

pub fn serialize<S: Serializer>(pieces: &[CheckpointPiece], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pieces.iter().map(|piece| {
        let CheckpointPiece { object, range, next_row, sha256 } = piece.clone();
        Stored { object, range, next_row, sha256 }
    }))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CheckpointPiece>, D::Error> {
    let stored = Vec::<Stored>::deserialize(deserializer)?.into_iter();
    Ok(stored
        .map(|Stored { object, range, next_row, sha256 }| CheckpointPiece { object, range, next_row, sha256 })
        .collect())
}
