//! Commitments: a row is bound to one, once.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ServiceError;

/// The relation between a commitment and the row's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitmentKind {
    /// A digest of what the gradient will be made of: batches, clipping, plan, and a nonce of the process that computes
    /// it. Another process can't produce it again.
    Declared,
    /// A keyed digest of the clipped sum itself, under a secret of the training job: equal only where every byte of the
    /// sum is. Rows may be replayed under it.
    Exact,
}

/// The first byte of a cursor of a training job's session: the secret of its exact commitments comes next, and then the
/// ledger's own cursor, whose first byte is its version. No client sends one.
pub const SECRET_CURSOR: u8 = 0xC5;

/// The number of digests of sums without a key. Their readers can test guesses of the sum against them, so that none is
/// accepted.
const UNKEYED: u8 = 2;

impl CommitmentKind {
    /// Returns the number in messages and ledgers.
    pub fn code(self) -> u8 {
        match self {
            Self::Declared => 1,
            Self::Exact => 3,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        [Self::Declared, Self::Exact].into_iter().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for CommitmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Declared => "declared",
            Self::Exact => "exact",
        })
    }
}

/// A digest that identifies a step's gradient. It must change whenever the released sum could change.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Commitment {
    /// The relation to the gradient.
    pub kind: CommitmentKind,
    /// A SHA-256, or an HMAC-SHA256 where the kind is `Exact`.
    pub digest: [u8; 32],
}

impl Commitment {
    /// The length of the encoded form: kind and digest.
    pub const BYTES: usize = 33;

    /// Creates a commitment to what the gradient will be made of.
    pub fn declared(digest: [u8; 32]) -> Self {
        Self { kind: CommitmentKind::Declared, digest }
    }

    /// Creates a commitment to a sum. `digest` is an HMAC of the bytes of the clipped sum that the row will be added to,
    /// under a secret that the training job keeps: without one, readers of the ledger could test guesses of the sum.
    pub fn exact(digest: [u8; 32]) -> Self {
        Self { kind: CommitmentKind::Exact, digest }
    }

    /// Creates a `declared` commitment from any text that names the step's data.
    pub fn of_text(text: &str) -> Self {
        let digest = Sha256::new().chain_update(b"rustle commitment v1").chain_update(text).finalize();
        Self::declared(digest.into())
    }

    /// Encodes kind and digest.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [self.kind.code(); Self::BYTES];
        bytes[1..].copy_from_slice(&self.digest);
        bytes
    }
}

impl TryFrom<&[u8]> for Commitment {
    type Error = ServiceError;
    /// Reads 33 bytes, kind and digest, or 32 bytes, the digest of a declared one.
    fn try_from(bytes: &[u8]) -> Result<Self, ServiceError> {
        let kind_and_digest = match bytes.len() {
            32 => Some((CommitmentKind::Declared, bytes)),
            33 => CommitmentKind::of_code(bytes[0]).map(|kind| (kind, &bytes[1..])),
            _ => None,
        };
        let commitment =
            kind_and_digest.and_then(|(kind, digest)| Some(Self { kind, digest: digest.try_into().ok()? }));
        commitment.ok_or_else(|| {
            let allowed = "32 bytes, or 33 bytes of which the first is 1 (declared) or 3 (exact, a keyed digest of the sum)";
            let found = match bytes {
                [UNKEYED, digest @ ..] if digest.len() == 32 => {
                    "of kind 2, a digest of the sum without a key, which readers of the ledger can test sums against".into()
                }
                _ => format!("{} bytes", bytes.len()),
            };
            ServiceError::invalid("commitment", found, allowed)
        })
    }
}

impl fmt::Debug for Commitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commitment({} {}…)", self.kind, hex::encode(&self.digest[..6]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commitments_survive_the_wire() {
        for commitment in [Commitment::of_text("a"), Commitment::exact([3; 32])] {
            assert_eq!(Commitment::try_from(&commitment.to_bytes()[..]).unwrap(), commitment);
        }
        assert_eq!(Commitment::try_from(&[7; 32][..]).unwrap(), Commitment::declared([7; 32]));
        assert_ne!(Commitment::declared([7; 32]), Commitment::exact([7; 32]));
        for bad in [&[0; 33][..], &[4; 33], &[1; 31], &[]] {
            assert!(Commitment::try_from(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn digests_of_sums_without_a_key_are_refused() {
        let refused = Commitment::try_from(&[2; 33][..]).unwrap_err().to_string();
        assert!(refused.contains("without a key") && refused.contains("3 (exact"), "{refused}");
        assert_eq!(Commitment::exact([7; 32]).to_bytes()[0], 3);
    }
}
