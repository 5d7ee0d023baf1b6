//! Release tokens: the coordinator's proof, checked by workers, that a row is durably bound to a commitment.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{Commitment, CoordinateRange, JobId, ServiceError};

const DOMAIN: &[u8] = b"rustle release token v2";

/// The secret that signs and verifies tokens. Each start of a coordinator draws a new one, and sends it to workers with
/// their leases.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct ReleaseKey([u8; 32]);

impl fmt::Debug for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReleaseKey([secret])")
    }
}

/// The limits of a token: its coordinator, its time, and its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The epoch of the coordinator that bound the row.
    pub epoch: u64,
    /// Milliseconds on that coordinator's own clock, which begins with its epoch and never jumps.
    pub until_ms: u64,
    /// The coordinates that may be fetched; `None` for all.
    pub extent: Option<CoordinateRange>,
}

impl ReleaseKey {
    /// Creates the key from 32 secret bytes.
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Reads a key from a message. Error: it has another length.
    pub fn try_from_bytes(bytes: &[u8]) -> Result<Self, ServiceError> {
        // The bytes themselves must not reach the message.
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| ServiceError::invalid("release_key", format!("{} bytes", bytes.len()), "32 bytes"))
    }

    /// Returns the secret bytes, for a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn mac(
        &self,
        job: &JobId,
        branch: u64,
        row: u64,
        commitment: &Commitment,
        validity: Validity,
    ) -> Hmac<Sha256> {
        let mut mac =
            <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(DOMAIN);
        mac.update(&(job.as_str().len() as u32).to_le_bytes());
        mac.update(job.as_str().as_bytes());
        mac.update(&branch.to_le_bytes());
        mac.update(&row.to_le_bytes());
        mac.update(&commitment.to_bytes());
        mac.update(&validity.epoch.to_le_bytes());
        mac.update(&validity.until_ms.to_le_bytes());
        // All fields before have a fixed or written length, so that a text with an extent never equals one without.
        if let Some(CoordinateRange { start, end }) = validity.extent {
            mac.update(&start.to_le_bytes());
            mac.update(&end.to_le_bytes());
        }
        mac
    }

    /// Signs a token. Call this only after the binding is durable.
    pub fn sign(
        &self,
        job: &JobId,
        branch: u64,
        row: u64,
        commitment: Commitment,
        validity: Validity,
    ) -> ReleaseToken {
        let tag = self.mac(job, branch, row, &commitment, validity).finalize().into_bytes().into();
        ReleaseToken { commitment, validity, tag }
    }

    /// Checks, in constant time, that the owner of this key bound the row. The validity is part of what was signed; the
    /// caller decides whether the token is still valid.
    pub fn verify(
        &self,
        job: &JobId,
        branch: u64,
        row: u64,
        token: &ReleaseToken,
    ) -> Result<(), ServiceError> {
        self.mac(job, branch, row, &token.commitment, token.validity)
            .verify_slice(&token.tag)
            .map_err(|_| ServiceError::NotBound { job: job.to_string(), branch, row })
    }
}

/// The proof that a row is bound, opaque to the job: commitment, validity, and a MAC over job, branch, row and both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReleaseToken {
    /// The commitment that the row is bound to.
    pub commitment: Commitment,
    /// The token's limits.
    pub validity: Validity,
    tag: [u8; 32],
}

impl fmt::Debug for ReleaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseToken({:?}, {:?}, [secret])", self.commitment, self.validity)
    }
}

impl ReleaseToken {
    /// The length of a token for all coordinates.
    pub const BYTES: usize = Commitment::BYTES + 8 + 8 + 32;
    const EXTENT_BYTES: usize = 8 + 8;

    /// Encodes the token.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Validity { epoch, until_ms, extent } = self.validity;
        let extent = extent.map(|extent| [extent.start.to_le_bytes(), extent.end.to_le_bytes()].concat());
        [
            &self.commitment.to_bytes()[..],
            &epoch.to_le_bytes(),
            &until_ms.to_le_bytes(),
            &extent.unwrap_or_default(),
            &self.tag,
        ]
        .concat()
    }
}

impl TryFrom<&[u8]> for ReleaseToken {
    type Error = ServiceError;
    fn try_from(bytes: &[u8]) -> Result<Self, ServiceError> {
        let invalid = || {
            let allowed = format!("{} or {} bytes", Self::BYTES, Self::BYTES + Self::EXTENT_BYTES);
            ServiceError::invalid("token", format!("{} bytes", bytes.len()), allowed)
        };
        let (commitment, rest) = bytes.split_at_checked(Commitment::BYTES).ok_or_else(invalid)?;
        let (epoch, rest) = rest.split_first_chunk::<8>().ok_or_else(invalid)?;
        let (until_ms, rest) = rest.split_first_chunk::<8>().ok_or_else(invalid)?;
        let (extent, tag) = rest.split_at(rest.len().saturating_sub(32));
        let validity = Validity {
            epoch: u64::from_le_bytes(*epoch),
            until_ms: u64::from_le_bytes(*until_ms),
            extent: match extent.as_chunks() {
                ([], []) => None,
                ([start, end], []) => {
                    Some(CoordinateRange::new(u64::from_le_bytes(*start), u64::from_le_bytes(*end))?)
                }
                _ => return Err(invalid()),
            },
        };
        Ok(Self { commitment: commitment.try_into()?, validity, tag: tag.try_into().map_err(|_| invalid())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_row_alone() {
        let key = ReleaseKey::new([1; 32]);
        let other = ReleaseKey::new([2; 32]);
        let job = JobId::new("a").unwrap();
        let validity = Validity { epoch: 3, until_ms: 1_000, extent: None };
        let token = key.sign(&job, 0, 7, Commitment::of_text("step"), validity);
        let token = ReleaseToken::try_from(token.to_bytes().as_slice()).unwrap();
        assert_eq!((key.verify(&job, 0, 7, &token), token.validity), (Ok(()), validity));
        assert!(key.verify(&job, 0, 8, &token).is_err());
        assert!(key.verify(&job, 1, 7, &token).is_err());
        assert!(key.verify(&JobId::new("b").unwrap(), 0, 7, &token).is_err());
        assert!(other.verify(&job, 0, 7, &token).is_err());
        let forged = [
            ReleaseToken { commitment: Commitment::of_text("other"), ..token },
            ReleaseToken { commitment: Commitment::exact(token.commitment.digest), ..token },
            ReleaseToken { validity: Validity { epoch: 4, ..validity }, ..token },
            ReleaseToken { validity: Validity { until_ms: 1_001, ..validity }, ..token },
        ];
        assert!(forged.iter().all(|token| key.verify(&job, 0, 7, token).is_err()));
    }

    #[test]
    fn a_token_of_an_extent_can_be_made_no_wider() {
        let key = ReleaseKey::new([1; 32]);
        let job = JobId::new("a").unwrap();
        let extent = CoordinateRange { start: 512, end: 1024 };
        let validity = Validity { epoch: 3, until_ms: 1_000, extent: Some(extent) };
        let token = key.sign(&job, 0, 7, Commitment::of_text("step"), validity);
        let bytes = token.to_bytes();
        assert_eq!(ReleaseToken::try_from(bytes.as_slice()).unwrap(), token);
        assert_eq!(key.verify(&job, 0, 7, &token), Ok(()));
        for extent in [None, Some(CoordinateRange { end: 1025, ..extent })] {
            let wider = ReleaseToken { validity: Validity { extent, ..validity }, ..token };
            assert!(key.verify(&job, 0, 7, &wider).is_err(), "{extent:?}");
        }
        let for_all = key.sign(&job, 0, 7, token.commitment, Validity { extent: None, ..validity });
        let narrower = ReleaseToken { validity, ..for_all };
        assert!(key.verify(&job, 0, 7, &narrower).is_err(), "only the coordinator narrows");
        for length in 0..bytes.len() {
            let cut = ReleaseToken::try_from(&bytes[..length]);
            assert!(cut.is_err() || length == ReleaseToken::BYTES, "{length}");
            assert!(cut.is_err() || key.verify(&job, 0, 7, &cut.unwrap()).is_err(), "{length}");
        }
    }
}
