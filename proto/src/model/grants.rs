//! Grants of leases to workers.

use super::{JobIdentity, digest};
use crate::{CoordinateRange, JobId, Lineage, NoiseId, Nonce, Result, ServiceError, pb};

/// A stored shard state that overlaps a granted range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPiece {
    /// The object's name in the store.
    pub object: String,
    /// The coordinates that the piece covers.
    pub range: CoordinateRange,
    /// The first row that the state has not generated yet.
    pub next_row: u64,
    /// SHA-256 of the whole object, as it is stored.
    pub sha256: [u8; 32],
}

impl TryFrom<pb::CheckpointPiece> for CheckpointPiece {
    type Error = ServiceError;
    fn try_from(piece: pb::CheckpointPiece) -> Result<Self> {
        Ok(Self {
            object: piece.object,
            range: piece.range.try_into()?,
            next_row: piece.next_row,
            sha256: digest("sha256", &piece.sha256)?,
        })
    }
}

impl From<CheckpointPiece> for pb::CheckpointPiece {
    fn from(piece: CheckpointPiece) -> Self {
        let CheckpointPiece { object, range, next_row, sha256 } = piece;
        Self { object, range: Some(range.into()), next_row, sha256: sha256.to_vec() }
    }
}

/// The right to make and serve one shard of one job, under an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The job.
    pub job: JobId,
    /// The job's nonce.
    pub job_nonce: Nonce,
    /// The id of the ledger that the job is in.
    pub ledger: Nonce,
    /// The branch whose Z each row has; the last one is to be served.
    pub lineage: Lineage,
    /// The shard's number.
    pub shard: u32,
    /// The shard's coordinates.
    pub range: CoordinateRange,
    /// The epoch under which requests must name the shard.
    pub epoch: u64,
    /// Coordinates of the whole vector.
    pub dimension: u64,
    /// Digest of the job's plan.
    pub plan_digest: [u8; 32],
    /// Digest of the order of the parameters in the vector.
    pub layout_digest: [u8; 32],
    /// Commitment to the job's key.
    pub key_commitment: [u8; 32],
    /// The next row that the job will bind.
    pub next_row: u64,
    /// URL of the checkpoint store; empty for none.
    pub store_url: String,
    /// Stored states that overlap the range, of all usable checkpoints.
    pub pieces: Vec<CheckpointPiece>,
}

impl LeaseGrant {
    /// Returns the branch to serve.
    pub fn branch(&self) -> u64 {
        self.lineage.branch()
    }

    /// Returns the job as its ledger created it.
    pub fn identity(&self) -> JobIdentity {
        JobIdentity { ledger: self.ledger, nonce: self.job_nonce, job: self.job.clone() }
    }

    /// Returns what identifies the noise to make, beside key and plan.
    pub fn noise_id(&self) -> NoiseId {
        NoiseId { job_nonce: self.job_nonce, lineage: self.lineage.clone() }
    }
}

impl TryFrom<pb::LeaseGrant> for LeaseGrant {
    type Error = ServiceError;
    fn try_from(grant: pb::LeaseGrant) -> Result<Self> {
        Ok(Self {
            job: JobId::new(grant.job)?,
            job_nonce: Nonce::from_slice("job_nonce", &grant.job_nonce)?,
            ledger: Nonce::from_slice("ledger_id", &grant.ledger_id)?,
            lineage: grant.lineage.try_into()?,
            shard: grant.shard,
            range: grant.range.try_into()?,
            epoch: grant.epoch,
            dimension: grant.dimension,
            plan_digest: digest("plan_digest", &grant.plan_digest)?,
            layout_digest: digest("layout_digest", &grant.layout_digest)?,
            key_commitment: digest("key_commitment", &grant.key_commitment)?,
            next_row: grant.next_row,
            store_url: grant.store_url,
            pieces: grant.pieces.into_iter().map(CheckpointPiece::try_from).collect::<Result<_>>()?,
        })
    }
}

impl From<LeaseGrant> for pb::LeaseGrant {
    fn from(grant: LeaseGrant) -> Self {
        Self {
            job: grant.job.into(),
            job_nonce: grant.job_nonce.as_bytes().to_vec(),
            ledger_id: grant.ledger.as_bytes().to_vec(),
            lineage: (&grant.lineage).into(),
            shard: grant.shard,
            range: Some(grant.range.into()),
            epoch: grant.epoch,
            dimension: grant.dimension,
            plan_digest: grant.plan_digest.to_vec(),
            layout_digest: grant.layout_digest.to_vec(),
            key_commitment: grant.key_commitment.to_vec(),
            next_row: grant.next_row,
            store_url: grant.store_url,
            pieces: grant.pieces.into_iter().map(Into::into).collect(),
        }
    }
}
