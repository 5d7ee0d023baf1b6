//! The events of a job. Its chain of events determines all that the ledger knows of it.

use std::borrow::Cow;

use proto::{Commitment, CommitmentKind, Nonce, hex_digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::archive::JobArchive;
use crate::{JobRecord, JobState, ShardRecord};

/// A durable event in the life of a job. Its JSON, behind who and when ([`Stamp`](crate::Stamp)), is what is stored, hashed and
/// exported, and never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The job was created: always the first event.
    Created {
        /// The id of the ledger that the job was created in.
        ledger: Nonce,
        /// The job's nonce.
        nonce: Nonce,
        /// Digest of the plan's canonical form.
        #[serde(with = "hex_digest")]
        plan_digest: [u8; 32],
        /// SHA-256 of the plan's text.
        #[serde(with = "hex_digest")]
        plan_sha256: [u8; 32],
        /// Coordinates of the vector.
        dimension: u64,
        /// Digest of the order of the parameters.
        #[serde(with = "hex_digest")]
        layout_digest: [u8; 32],
        /// Rows of the plan.
        iterations: u64,
        /// The mechanism's name.
        mechanism: String,
        /// Commitment to the job's key.
        #[serde(with = "hex_digest")]
        key_commitment: [u8; 32],
        /// 0, except where the job is older than its chain.
        layout_epoch: u64,
        /// The first shards.
        shards: Vec<ShardRecord>,
    },
    /// Rows were bound to commitments.
    Bound {
        /// The branch whose Z the rows have.
        branch: u64,
        /// The rows that no earlier event had bound.
        rows: Vec<BoundRow>,
    },
    /// The job rewound to a row, and draws fresh Z from that row on.
    BranchOpened {
        /// The new branch's number.
        branch: u64,
        /// The branch that it keeps the rows before of.
        parent: u64,
        /// The branch's first row.
        from_row: u64,
        /// The branch's nonce.
        nonce: Nonce,
        /// Every shard, under the new epoch that fences the old branch.
        shards: Vec<ShardRecord>,
    },
    /// The job was finished or destroyed.
    StateChanged {
        /// The new state.
        state: JobState,
    },
    /// Shards were leased to other workers, or released.
    Leased {
        /// The shards, under their new epochs.
        shards: Vec<ShardRecord>,
    },
    /// The vector was cut into other shards.
    Resharded {
        /// The number of the new layout.
        layout_epoch: u64,
        /// The new shards.
        shards: Vec<ShardRecord>,
    },
    /// A checkpoint was completed.
    CheckpointAdded {
        /// The checkpoint's number.
        id: u64,
        /// SHA-256 of the record's JSON.
        #[serde(with = "hex_digest")]
        sha256: [u8; 32],
    },
    /// A checkpoint was deleted.
    CheckpointRemoved {
        /// The checkpoint's number.
        id: u64,
    },
    /// The ledger, which is a copy of another one, continues by itself from here.
    Adopted {
        /// The id that the ledger has from then on.
        ledger: Nonce,
    },
    /// The destroyed job's bindings and the entries before were removed, and this stands for them.
    Archived(Box<JobArchive>),
}

impl Event {
    /// Returns the event that a job begins with.
    pub(crate) fn created(
        ledger: Nonce,
        job: &JobRecord,
        plan_sha256: [u8; 32],
        shards: &[ShardRecord],
    ) -> Self {
        Self::Created {
            ledger,
            nonce: job.nonce,
            plan_digest: job.plan_digest,
            plan_sha256,
            dimension: job.dimension,
            layout_digest: job.layout_digest,
            iterations: job.iterations,
            mechanism: job.mechanism.clone(),
            key_commitment: job.key_commitment,
            layout_epoch: job.layout_epoch,
            shards: shards.to_vec(),
        }
    }
}

/// A row and its commitment; as JSON `[row, kind, digest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundRow {
    /// The row.
    pub row: u64,
    /// The commitment that the row is bound to, for ever.
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
        #[derive(Deserialize)]
        struct Stored<'a>(u64, CommitmentKind, #[serde(borrow)] Cow<'a, str>);

        let Stored(row, kind, text) = Stored::deserialize(deserializer)?;
        let mut digest = [0; 32];
        hex::decode_to_slice(&*text, &mut digest)
            .map_err(|_| D::Error::custom("a digest is 64 hex digits"))?;
        Ok(Self { row, commitment: Commitment { kind, digest } })
    }
}
