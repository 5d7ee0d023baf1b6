//! Proofs that a worker has a job's key: a signature under the key's commitment, which is a public key.

use ed25519_dalek::{Signature, VerifyingKey};

use crate::{
    Incarnation, JobId, Nonce, Result, ServiceError, SignedText, WorkerId,
    coordinator_key::{SIGNATURE_BYTES, signature},
    pb,
};

const DOMAIN: &str = "rustle key possession v1";

/// What a worker signs with a job's key, once for each job and registration.
#[derive(Clone, Copy, Debug)]
pub struct PossessionChallenge<'a> {
    /// 32 random bytes that the coordinator drew for the registration.
    pub challenge: &'a [u8; 32],
    /// The worker's name.
    pub worker: &'a WorkerId,
    /// The start of its process.
    pub incarnation: &'a Incarnation,
    /// The job.
    pub job: &'a JobId,
    /// The nonce that the ledger drew for the job.
    pub job_nonce: &'a Nonce,
}

impl PossessionChallenge<'_> {
    /// Returns what is signed.
    pub fn signed_text(&self) -> SignedText {
        let Self { challenge, worker, incarnation, job, job_nonce } = self;
        let names = [worker.as_str().as_bytes(), job.as_str().as_bytes()];
        SignedText::new(DOMAIN, &[&challenge[..], names[0], &incarnation.0, names[1], job_nonce.as_bytes()])
    }

    /// Returns whether the owner of the key with this commitment signed this challenge.
    pub fn is_met_by(&self, commitment: &[u8; 32], proof: &[u8; SIGNATURE_BYTES]) -> bool {
        let Ok(key) = VerifyingKey::from_bytes(commitment) else { return false };
        // Strict: under a commitment of small order anyone could sign.
        key.verify_strict(self.signed_text().as_bytes(), &Signature::from_bytes(proof)).is_ok()
    }
}

/// A worker's answer to a challenge, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyProof {
    /// The job.
    pub job: JobId,
    /// The signature under the commitment to the job's key.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl TryFrom<pb::KeyProof> for KeyProof {
    type Error = ServiceError;
    fn try_from(proof: pb::KeyProof) -> Result<Self> {
        let signature = signature("proofs.signature", &proof.signature)?;
        Ok(Self { job: JobId::new(proof.job)?, signature })
    }
}

impl From<KeyProof> for pb::KeyProof {
    fn from(proof: KeyProof) -> Self {
        Self { job: proof.job.into(), signature: proof.signature.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer, SigningKey};

    use super::*;

    #[test]
    fn a_proof_is_good_for_one_challenge() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let commitment = key.verifying_key().to_bytes();
        let [worker, other] = ["w", "v"].map(|name| WorkerId::new(name).unwrap());
        let [job, another] = ["j", "k"].map(|name| JobId::new(name).unwrap());
        let [process, later] = [Incarnation([1; 16]), Incarnation([2; 16])];
        let [nonce, elsewhere] = [1, 2].map(|byte| Nonce::from_bytes([byte; 32]));
        let asked = PossessionChallenge {
            challenge: &[7; 32],
            worker: &worker,
            incarnation: &process,
            job: &job,
            job_nonce: &nonce,
        };
        let proof = key.sign(asked.signed_text().as_bytes()).to_bytes();
        assert!(asked.is_met_by(&commitment, &proof));
        for changed in [
            PossessionChallenge { challenge: &[8; 32], ..asked },
            PossessionChallenge { worker: &other, ..asked },
            PossessionChallenge { incarnation: &later, ..asked },
            PossessionChallenge { job: &another, ..asked },
            PossessionChallenge { job_nonce: &elsewhere, ..asked },
        ] {
            assert!(!changed.is_met_by(&commitment, &proof), "{changed:?}");
        }
        let echo: [u8; 64] = [commitment, commitment].concat().try_into().unwrap();
        assert!(!asked.is_met_by(&commitment, &echo));
        let identity: [u8; 32] = std::array::from_fn(|at| u8::from(at == 0));
        let of_identity: [u8; 64] = std::array::from_fn(|at| u8::from(at == 0));
        assert!(!asked.is_met_by(&identity, &of_identity), "a commitment that every signature would fit");
    }
}
