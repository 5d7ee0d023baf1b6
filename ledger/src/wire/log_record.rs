//! Records of the log: the changes themselves, or where their pieces are.

use proto::hex_digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::change::Change;

/// The most bytes of one value: a request to etcd has at most 1.5 MiB, by default.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// The JSON of one key of the log.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Record {
    /// A record in one piece.
    Whole {
        /// The revision at which its writer became leader.
        by: i64,
        changes: Vec<Change>,
    },
    /// A reference to the pieces of a [`Record::Whole`]'s JSON.
    InParts {
        by: i64,
        parts: usize,
        #[serde(with = "hex_digest")]
        sha256: [u8; 32],
    },
}

/// An encoded record. Its pieces are written first, where there are any.
pub struct EncodedRecord {
    pub parts: Vec<Vec<u8>>,
    pub record: Vec<u8>,
}

/// Encodes the changes of one transaction.
pub fn encode(by: i64, changes: &[Change]) -> serde_json::Result<EncodedRecord> {
    let whole = serde_json::to_vec(&Record::Whole { by, changes: changes.to_vec() })?;
    if whole.len() <= MAX_VALUE_BYTES {
        return Ok(EncodedRecord { parts: Vec::new(), record: whole });
    }
    let parts: Vec<Vec<u8>> = whole.chunks(MAX_VALUE_BYTES).map(<[u8]>::to_vec).collect();
    let record = Record::InParts { by, parts: parts.len(), sha256: Sha256::digest(&whole).into() };
    Ok(EncodedRecord { record: serde_json::to_vec(&record)?, parts })
}

/// Joins the pieces of a record to its changes; `None` where they are not what was written.
pub fn join(parts: &[Vec<u8>], count: usize, sha256: [u8; 32]) -> Option<Vec<Change>> {
    let whole = parts.concat();
    if parts.len() != count || <[u8; 32]>::from(Sha256::digest(&whole)) != sha256 {
        return None;
    }
    match serde_json::from_slice(&whole) {
        Ok(Record::Whole { changes, .. }) => Some(changes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(text: String) -> Change {
        Change("plans".to_owned(), json!("j"), Some(json!(text)))
    }

    #[test]
    fn a_small_record_is_one_and_a_large_one_is_cut_and_joined() {
        let small = encode(7, &[change("x".to_owned())]).unwrap();
        assert!(small.parts.is_empty());
        assert_eq!(String::from_utf8(small.record).unwrap(), r#"{"by":7,"changes":[["plans","j","x"]]}"#);
        let changes = [change("y".repeat(3 * MAX_VALUE_BYTES))];
        let large = encode(7, &changes).unwrap();
        assert!(large.record.len() < 200 && large.parts.iter().all(|part| part.len() <= MAX_VALUE_BYTES));
        let Record::InParts { by: 7, parts, sha256 } = serde_json::from_slice(&large.record).unwrap() else {
            panic!("not in parts")
        };
        assert_eq!(join(&large.parts, parts, sha256).unwrap(), changes);
        assert!(join(&large.parts[1..], parts, sha256).is_none());
        let mut altered = large.parts.clone();
        altered[1][5] ^= 1;
        assert!(join(&altered, parts, sha256).is_none());
    }
}
