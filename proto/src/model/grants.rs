//! What workers are granted.

use super::digest;
use crate::{CoordinateRange, JobId, Lineage, Result, ServiceError, pb};

/// A stored shard state that overlaps a granted range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPiece {
    pub object: String,
    pub range: CoordinateRange,
    pub next_row: u64,
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
    pub job: JobId,
    /// Whose Z each row has; its last branch is the one to serve.
    pub lineage: Lineage,
    pub shard: u32,
    pub range: CoordinateRange,
    pub epoch: u64,
    pub dimension: u64,
    pub plan_digest: [u8; 32],
    pub key_commitment: [u8; 32],
    pub next_row: u64,
    pub store_url: String,
    pub pieces: Vec<CheckpointPiece>,
}

impl LeaseGrant {
    /// The branch to serve.
    pub fn branch(&self) -> u64 {
        self.lineage.branch()
    }
}

impl TryFrom<pb::LeaseGrant> for LeaseGrant {
    type Error = ServiceError;
    fn try_from(grant: pb::LeaseGrant) -> Result<Self> {
        Ok(Self {
            job: JobId::new(grant.job)?,
            lineage: grant.lineage.try_into()?,
            shard: grant.shard,
            range: grant.range.try_into()?,
            epoch: grant.epoch,
            dimension: grant.dimension,
            plan_digest: digest("plan_digest", &grant.plan_digest)?,
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
            lineage: (&grant.lineage).into(),
            shard: grant.shard,
            range: Some(grant.range.into()),
            epoch: grant.epoch,
            dimension: grant.dimension,
            plan_digest: grant.plan_digest.to_vec(),
            key_commitment: grant.key_commitment.to_vec(),
            next_row: grant.next_row,
            store_url: grant.store_url,
            pieces: grant.pieces.into_iter().map(Into::into).collect(),
        }
    }
}
