//! The secret of a job and the keys of its branches.

use crate::KernelError;
use ed25519_dalek::{Signer, SigningKey};
use hkdf::Hkdf;
use plan::{Layout, Plan};
use sha2::Sha256;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

const BRANCH_SALT: &[u8] = b"rustle noise-stream v3";
const CHECKPOINT_SALT: &[u8] = b"rustle checkpoint v2";
const POSSESSION_SALT: &[u8] = b"rustle key-possession v2";

/// The 32 secret bytes a job's noise comes from. The process that starts the job draws them from the
/// operating system.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct JobKey([u8; 32]);

/// What a job's noise depends on beside its key and the nonces of its branches. None of it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseContext {
    /// 32 random bytes that the ledger drew when the job was created. Another ledger draws others, so that the same key
    /// makes other noise there.
    pub job_nonce: [u8; 32],
    /// SHA-256 of the plan's canonical form.
    pub plan_digest: [u8; 32],
    /// Coordinates of the vector.
    pub dimension: u64,
    /// Digest of the order of the parameters in the vector.
    pub layout_digest: [u8; 32],
}

impl NoiseContext {
    /// Returns the context of a job with this plan. The layout is the plan's, or the dimension alone where it has none.
    ///
    /// # Errors
    /// [`KernelError::Dimension`] for a dimension that no vector can have.
    pub fn new(plan: &Plan, dimension: u64, job_nonce: [u8; 32]) -> Result<Self, KernelError> {
        let layout_digest = match plan.layout() {
            Some(layout) => layout.digest(),
            None => {
                let layout = Layout::dimension_only(dimension);
                layout.map_err(|_| KernelError::Dimension { got: dimension })?.digest()
            }
        };
        Ok(Self { job_nonce, plan_digest: plan.digest(), dimension, layout_digest })
    }
}

/// The ChaCha key of one branch of a job: bound to the job's [`NoiseContext`] and to the branch's nonce.
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

    /// Returns the public commitment to the key, which identifies the key and reveals nothing about it: an Ed25519 public
    /// key.
    pub fn commitment(&self) -> [u8; 32] {
        self.possession_key().verifying_key().to_bytes()
    }

    /// Signs a text, which any reader of the commitment can check: a proof that this process has the key.
    pub fn prove_possession(&self, text: &[u8]) -> [u8; 64] {
        self.possession_key().sign(text).to_bytes()
    }

    fn possession_key(&self) -> SigningKey {
        let mut seed = Zeroizing::new([0; 32]);
        expand(POSSESSION_SALT, &self.0, &[b"ed25519"], &mut seed);
        SigningKey::from_bytes(&seed)
    }

    /// Returns the key of the branch with this nonce; that of branch 0 is the job's (docs/noise-stream.md, section 1).
    pub fn branch(&self, context: &NoiseContext, branch_nonce: &[u8; 32]) -> BranchKey {
        let NoiseContext { job_nonce, plan_digest, dimension, layout_digest } = context;
        let dimension = dimension.to_le_bytes();
        // Every part has a fixed length, so that no two lists of parts are the same bytes.
        let info: [&[u8]; 6] = [b"branch", job_nonce, branch_nonce, plan_digest, &dimension, layout_digest];
        let mut key = BranchKey([0; 32]);
        expand(BRANCH_SALT, &self.0, &info, &mut key.0);
        key
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
    /// Returns the keys of a lineage: pairs of a first row and the nonce of the branch whose Z the rows from there on
    /// have.
    ///
    /// # Errors
    /// [`KernelError::Lineage`] for no pairs, a first one not of row 0, or rows that don't rise.
    pub fn row_keys(
        &self,
        context: &NoiseContext,
        lineage: &[(u64, [u8; 32])],
    ) -> Result<RowKeys, KernelError> {
        check_rows(lineage.iter().map(|(row, _)| *row).collect())?;
        Ok(RowKeys(lineage.iter().map(|(row, nonce)| (*row, self.branch(context, nonce))).collect()))
    }

    /// Returns 32 bytes that seal this job's stored state. They are as secret as the key, and of no use for making
    /// noise.
    pub fn checkpoint_key(&self, job_nonce: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        expand(CHECKPOINT_SALT, &self.0, &[b"seal", job_nonce], &mut key);
        key
    }
}

fn expand(salt: &[u8], secret: &[u8; 32], info: &[&[u8]], key: &mut [u8; 32]) {
    // 32 bytes are one block of SHA-256; HKDF refuses only more than 255 blocks.
    let expanded = Hkdf::<Sha256>::new(Some(salt), secret).expand_multi_info(info, key);
    assert!(expanded.is_ok(), "HKDF gave no 32 bytes");
}

impl RowKeys {
    /// Returns keys that were derived elsewhere, each from its first row on, for test vectors and auditors.
    ///
    /// # Errors
    /// [`KernelError::Lineage`], as of [`JobKey::row_keys`].
    pub fn from_keys(keys: Vec<(u64, BranchKey)>) -> Result<Self, KernelError> {
        check_rows(keys.iter().map(|(row, _)| *row).collect())?;
        Ok(Self(keys))
    }
}

/// Checks that the first rows of branches begin with 0 and rise.
fn check_rows(rows: Vec<u64>) -> Result<(), KernelError> {
    let rise = rows.windows(2).all(|pair| pair[0] < pair[1]);
    if rows.first() == Some(&0) && rise {
        return Ok(());
    }
    let allowed = "it must begin with row 0, and its rows must rise";
    Err(KernelError::Lineage { got: format!("{rows:?}"), allowed })
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
