//! The secret of a job and the keys of its branches.

use crate::KernelError;
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const BRANCH_SALT: &[u8] = b"rustle noise-stream v2";
const CHECKPOINT_SALT: &[u8] = b"rustle checkpoint v1";
const COMMITMENT_PREFIX: &[u8] = b"rustle key-commitment v1";

/// The 32 secret bytes a job's noise comes from. The process that starts the job draws them from the
/// operating system.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct JobKey([u8; 32]);

/// The ChaCha key of one branch of a job: bound to job id, branch number and plan digest.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct BranchKey([u8; 32]);

impl JobKey {
    /// Returns the key with these bytes.
    ///
    /// # Errors
    /// [`KernelError::KeyLength`] for anything but 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KernelError> {
        match bytes.first_chunk() {
            Some(key) if bytes.len() == 32 => Ok(Self(*key)),
            _ => Err(KernelError::KeyLength { got: bytes.len() }),
        }
    }

    /// Returns the secret itself, for a key file. With it the noise can be subtracted.
    pub fn secret_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the public commitment to the key, which identifies the key and reveals nothing about it.
    pub fn commitment(&self) -> [u8; 32] {
        Sha256::new().chain_update(COMMITMENT_PREFIX).chain_update(self.0).finalize().into()
    }

    /// Returns the key of one branch. `plan_digest` is the SHA-256 of the plan's canonical form.
    ///
    /// # Errors
    /// [`KernelError::JobIdLength`] for a job id longer than 2³² − 1 bytes.
    pub fn branch(&self, job: &str, branch: u64, plan_digest: &[u8; 32]) -> Result<BranchKey, KernelError> {
        let too_long = KernelError::JobIdLength { got: job.len() };
        let length = u32::try_from(job.len()).map_err(|_| too_long.clone())?;
        let length = length.to_le_bytes();
        let branch = branch.to_le_bytes();
        let info: [&[u8]; 5] = [b"branch", &length, job.as_bytes(), &branch, plan_digest];
        let mut key = BranchKey([0; 32]);
        // 32 bytes is one block of SHA-256; HKDF refuses only more than 255 blocks.
        let hkdf = Hkdf::<Sha256>::new(Some(BRANCH_SALT), &self.0);
        hkdf.expand_multi_info(&info, &mut key.0).map_err(|_| too_long)?;
        Ok(key)
    }
}

/// The branch keys of a job's rows, each from the row where its branch was opened. The Z of a job that was rewound
/// comes from them (docs/noise-stream.md, section 12).
#[derive(Clone, Debug)]
pub struct RowKeys(Vec<(u64, BranchKey)>);

impl RowKeys {
    /// The keys with their first rows. There is at least one; the first holds from row 0, the others from rising rows.
    pub(crate) fn keys(&self) -> &[(u64, BranchKey)] {
        &self.0
    }
}

impl From<BranchKey> for RowKeys {
    /// Uses one branch for all rows, as for a job that was never rewound.
    fn from(key: BranchKey) -> Self {
        Self(vec![(0, key)])
    }
}

impl JobKey {
    /// Returns the keys of a lineage: pairs of a first row and the branch whose Z the rows from there on have.
    ///
    /// # Errors
    /// Fails as [`JobKey::branch`] does, and with [`KernelError::Lineage`] for no pairs, a first one not of row 0, or
    /// rows that don't rise.
    pub fn row_keys(
        &self,
        job: &str,
        lineage: &[(u64, u64)],
        plan_digest: &[u8; 32],
    ) -> Result<RowKeys, KernelError> {
        let rise = lineage.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if lineage.first().is_none_or(|(row, _)| *row != 0) || !rise {
            let allowed = "it must begin with row 0, and its rows must rise";
            return Err(KernelError::Lineage { got: format!("{lineage:?}"), allowed });
        }
        let keys = lineage.iter().map(|&(row, branch)| Ok((row, self.branch(job, branch, plan_digest)?)));
        Ok(RowKeys(keys.collect::<Result<_, KernelError>>()?))
    }

    /// Returns 32 bytes that seal this job's stored state. They are as secret as the key, and of no use for making
    /// noise.
    pub fn checkpoint_key(&self, job: &str) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        let hkdf = Hkdf::<Sha256>::new(Some(CHECKPOINT_SALT), &self.0);
        // One block: HKDF refuses only more than 255.
        let expanded = hkdf.expand_multi_info(&[b"seal", job.as_bytes()], &mut *key);
        debug_assert!(expanded.is_ok());
        key
    }
}

impl BranchKey {
    /// Returns the branch key with these bytes, for test vectors and for auditors who derive it themselves.
    pub fn from_array(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the ChaCha key itself, 32 bytes.
    pub fn secret_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(secret)")
    }
}

impl fmt::Debug for BranchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BranchKey(secret)")
    }
}
