//! What can durably happen to a job. Its chain of events says all that the ledger knows of it.

use proto::{Commitment, CommitmentKind, hex_digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{JobRecord, JobState, ShardRecord};

/// As JSON: what is stored, hashed and exported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    Created {
        #[serde(with = "hex_digest")]
        plan_digest: [u8; 32],
        /// Of the plan's text.
        #[serde(with = "hex_digest")]
        plan_sha256: [u8; 32],
        dimension: u64,
        iterations: u64,
        mechanism: String,
        #[serde(with = "hex_digest")]
        key_commitment: [u8; 32],
        /// 0, but where the job is older than its chain.
        layout_epoch: u64,
        shards: Vec<ShardRecord>,
    },
    Bound {
        /// Whose Z the rows have.
        branch: u64,
        rows: Vec<BoundRow>,
    },
    BranchOpened {
        branch: u64,
        parent: u64,
        from_row: u64,
        /// Every shard, under the new epoch that fences the old branch.
        shards: Vec<ShardRecord>,
    },
    StateChanged {
        state: JobState,
    },
    /// Shards changed hands.
    Leased {
        shards: Vec<ShardRecord>,
    },
    Resharded {
        layout_epoch: u64,
        shards: Vec<ShardRecord>,
    },
    CheckpointAdded {
        id: u64,
        /// Of the record's JSON.
        #[serde(with = "hex_digest")]
        sha256: [u8; 32],
    },
    CheckpointRemoved {
        id: u64,
    },
}

impl Event {
    /// Returns the event that a job begins with.
    pub(crate) fn created(job: &JobRecord, plan_sha256: [u8; 32], shards: &[ShardRecord]) -> Self {
        Self::Created {
            plan_digest: job.plan_digest,
            plan_sha256,
            dimension: job.dimension,
            iterations: job.iterations,
            mechanism: job.mechanism.clone(),
            key_commitment: job.key_commitment,
            layout_epoch: job.layout_epoch,
            shards: shards.to_vec(),
        }
    }
}

/// `[row, kind, digest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundRow {
    pub row: u64,
    pub commitment: Commitment,
}

impl Serialize for BoundRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Commitment { kind, digest } = self.commitment;
        (self.row, kind, hex::encode(digest)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BoundRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (row, kind, text) = <(u64, CommitmentKind, String)>::deserialize(deserializer)?;
        let mut digest = [0; 32];
        hex::decode_to_slice(&text, &mut digest)
            .map_err(|_| D::Error::custom("a digest is 64 hex digits"))?;
        Ok(Self { row, commitment: Commitment { kind, digest } })
    }
}
