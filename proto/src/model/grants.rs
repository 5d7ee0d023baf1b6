//! Grants of leases to workers.

use std::collections::{BTreeMap, BTreeSet};

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

impl LeaseGrant {
    fn read(grant: pb::LeaseGrant, lineage: Lineage) -> Result<Self> {
        Ok(Self {
            job: JobId::new(grant.job)?,
            job_nonce: Nonce::from_slice("job_nonce", &grant.job_nonce)?,
            ledger: Nonce::from_slice("ledger_id", &grant.ledger_id)?,
            lineage,
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

impl TryFrom<pb::LeaseGrant> for LeaseGrant {
    type Error = ServiceError;
    fn try_from(mut grant: pb::LeaseGrant) -> Result<Self> {
        let lineage = std::mem::take(&mut grant.lineage).try_into()?;
        Self::read(grant, lineage)
    }
}

impl From<LeaseGrant> for pb::LeaseGrant {
    fn from(grant: LeaseGrant) -> Self {
        let lineage = (&grant.lineage).into();
        message_of(grant, lineage)
    }
}

fn message_of(grant: LeaseGrant, lineage: Vec<pb::LineageSegment>) -> pb::LeaseGrant {
    pb::LeaseGrant {
        job: grant.job.into(),
        job_nonce: grant.job_nonce.as_bytes().to_vec(),
        ledger_id: grant.ledger.as_bytes().to_vec(),
        lineage,
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

/// The grants of one answer to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedLeases {
    /// All leases that a worker should hold.
    pub leases: Vec<LeaseGrant>,
    /// All shards that it should prepare.
    pub standbys: Vec<LeaseGrant>,
}

/// A grant that could not be read: its job and shard, and why.
pub type UnreadableGrant = (String, u32, ServiceError);

impl GrantedLeases {
    /// Reads leases and standbys. A grant that can't be read takes none of the others with it: it is returned beside them.
    pub fn read(leases: Vec<pb::LeaseGrant>, standbys: Vec<pb::LeaseGrant>) -> (Self, Vec<UnreadableGrant>) {
        let mut lineages = BTreeMap::new();
        let mut unreadable = Vec::new();
        let mut read_all = |grants: Vec<pb::LeaseGrant>| {
            let mut readable = Vec::new();
            for grant in grants {
                let job = grant.job.clone();
                let shard = grant.shard;
                match read_shared(grant, &mut lineages) {
                    Ok(grant) => readable.push(grant),
                    Err(error) => unreadable.push((job, shard, error)),
                }
            }
            readable
        };
        let granted = Self { leases: read_all(leases), standbys: read_all(standbys) };
        (granted, unreadable)
    }

    /// Returns the messages of leases and standbys. A job's lineage is in the first of its grants alone: it may have a
    /// thousand segments, and the job thousands of shards.
    pub fn into_messages(self) -> (Vec<pb::LeaseGrant>, Vec<pb::LeaseGrant>) {
        let mut named = BTreeSet::new();
        let mut to_messages = |grants: Vec<LeaseGrant>| {
            let message = |grant: LeaseGrant| {
                let is_first = named.insert(grant.job.clone());
                if is_first { grant.into() } else { message_of(grant, Vec::new()) }
            };
            grants.into_iter().map(message).collect()
        };
        (to_messages(self.leases), to_messages(self.standbys))
    }
}

/// Reads a grant. One without a lineage has that of the last grant of its job with one.
fn read_shared(mut grant: pb::LeaseGrant, lineages: &mut BTreeMap<String, Lineage>) -> Result<LeaseGrant> {
    let segments = std::mem::take(&mut grant.lineage);
    let lineage = match lineages.get(&grant.job) {
        Some(lineage) if segments.is_empty() => lineage.clone(),
        _ => {
            let lineage = Lineage::try_from(segments)?;
            lineages.insert(grant.job.clone(), lineage.clone());
            lineage
        }
    };
    LeaseGrant::read(grant, lineage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(job: &str, shard: u32, segments: u64) -> LeaseGrant {
        let nonce = Nonce::from_bytes([1; 32]);
        let lineage =
            (1..segments).fold(Lineage::of_job(nonce), |it, branch| it.rewound(branch, branch, nonce));
        LeaseGrant {
            job: JobId::new(job).unwrap(),
            job_nonce: nonce,
            ledger: nonce,
            lineage,
            shard,
            range: CoordinateRange { start: 0, end: 512 },
            epoch: 1,
            dimension: 512,
            plan_digest: [2; 32],
            layout_digest: [3; 32],
            key_commitment: [4; 32],
            next_row: 5,
            store_url: String::new(),
            pieces: Vec::new(),
        }
    }

    #[test]
    fn a_lineage_is_sent_once_a_job_and_had_by_all_its_shards() {
        let of =
            |job: &str, segments| (0..512).map(move |shard| grant(job, shard, segments)).collect::<Vec<_>>();
        let leases = [of("a", 1024), of("b", 1)].concat();
        let sent = GrantedLeases { leases, standbys: vec![grant("a", 600, 1024), grant("c", 0, 2)] };
        let (leases, standbys) = sent.clone().into_messages();
        let bytes: usize = leases.iter().map(prost::Message::encoded_len).sum();
        assert!(bytes < 1024 * 60 + 1024 * 250, "{bytes}");
        assert_eq!(GrantedLeases::read(leases, standbys), (sent, Vec::new()));
    }

    #[test]
    fn a_grant_that_cant_be_read_takes_no_other_with_it() {
        let granted = GrantedLeases {
            leases: vec![grant("a", 0, 2), grant("a", 1, 2), grant("b", 0, 1), grant("b", 1, 1)],
            standbys: vec![],
        };
        let (mut leases, _) = granted.clone().into_messages();
        leases[0].lineage.clear();
        leases[3].plan_digest.clear();
        let (read, unreadable) = GrantedLeases::read(leases, vec![]);
        assert_eq!(read.leases, [grant("b", 0, 1)]);
        let named: Vec<_> = unreadable.iter().map(|(job, shard, _)| (job.as_str(), *shard)).collect();
        assert_eq!(named, [("a", 0), ("a", 1), ("b", 1)]);
    }
}
