//! Release tokens: the coordinator's proof, checked by workers, that a row is durably bound to a commitment.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Commitment, JobId, ServiceError};

const DOMAIN: &[u8] = b"rustle release token v1";

/// Makes and checks tokens. New with every start of a coordinator; given to workers with their leases. Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ReleaseKey([u8; 32]);

impl fmt::Debug for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReleaseKey([secret])")
    }
}

impl ReleaseKey {
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    pub fn try_from_bytes(bytes: &[u8]) -> Result<Self, ServiceError> {
        // The bytes themselves must not reach the message.
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| ServiceError::invalid("release_key", format!("{} bytes", bytes.len()), "32 bytes"))
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn mac(&self, job: &JobId, branch: u64, row: u64, commitment: &Commitment) -> Hmac<Sha256> {
        let mut mac =
            <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(DOMAIN);
        mac.update(&(job.as_str().len() as u32).to_le_bytes());
        mac.update(job.as_str().as_bytes());
        mac.update(&branch.to_le_bytes());
        mac.update(&row.to_le_bytes());
        mac.update(&commitment.0);
        mac
    }

    /// Call only after the binding is durable.
    pub fn sign(&self, job: &JobId, branch: u64, row: u64, commitment: Commitment) -> ReleaseToken {
        let tag: [u8; 32] = self.mac(job, branch, row, &commitment).finalize().into_bytes().into();
        ReleaseToken { commitment, tag }
    }

    /// Constant-time check that this key's owner bound the row.
    pub fn verify(
        &self,
        job: &JobId,
        branch: u64,
        row: u64,
        token: &ReleaseToken,
    ) -> Result<(), ServiceError> {
        self.mac(job, branch, row, &token.commitment)
            .verify_slice(&token.tag)
            .map_err(|_| ServiceError::NotBound { job: job.to_string(), branch, row })
    }
}

/// Opaque to the job: 32 bytes of commitment, 32 bytes of MAC over job, branch, row and commitment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReleaseToken {
    pub commitment: Commitment,
    tag: [u8; 32],
}

impl fmt::Debug for ReleaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseToken({:?}, [secret])", self.commitment)
    }
}

impl ReleaseToken {
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.commitment.0, self.tag].concat()
    }
}

impl TryFrom<&[u8]> for ReleaseToken {
    type Error = ServiceError;
    fn try_from(bytes: &[u8]) -> Result<Self, ServiceError> {
        let invalid = || ServiceError::invalid("token", format!("{} bytes", bytes.len()), "64 bytes");
        let (commitment, tag) = bytes.split_at_checked(32).ok_or_else(invalid)?;
        Ok(Self { commitment: commitment.try_into()?, tag: tag.try_into().map_err(|_| invalid())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_row_alone() {
        let (key, other) = (ReleaseKey::new([1; 32]), ReleaseKey::new([2; 32]));
        let job = JobId::new("a").unwrap();
        let token = key.sign(&job, 0, 7, Commitment::of_text("step"));
        let token = ReleaseToken::try_from(token.to_bytes().as_slice()).unwrap();
        assert_eq!(key.verify(&job, 0, 7, &token), Ok(()));
        assert!(key.verify(&job, 0, 8, &token).is_err());
        assert!(key.verify(&job, 1, 7, &token).is_err());
        assert!(key.verify(&JobId::new("b").unwrap(), 0, 7, &token).is_err());
        assert!(other.verify(&job, 0, 7, &token).is_err());
        let forged = ReleaseToken { commitment: Commitment::of_text("other"), ..token };
        assert!(key.verify(&job, 0, 7, &forged).is_err());
    }
}
