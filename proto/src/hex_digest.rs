//! Digests as hex in JSON, so that people can compare them. For `#[serde(with = "proto::hex_digest")]`.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Writes the digest as 64 hex digits.
pub fn serialize<S: Serializer>(digest: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex::encode(digest))
}

/// Reads 64 hex digits.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut digest = [0; 32];
    hex::decode_to_slice(&text, &mut digest).map_err(|_| D::Error::custom("a digest is 64 hex digits"))?;
    Ok(digest)
}
