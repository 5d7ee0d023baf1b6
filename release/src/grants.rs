//! Grants: the lease of a shard as its owner receives it.

use ledger::JobRecord;
use proto::{CheckpointRecord, CoordinateRange, Nonce, model::LeaseGrant, pieces_for};

use crate::checkpoints::is_usable;

/// A shard of a job, under the epoch of its lease or the number of its preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The shard's number.
    pub shard: u32,
    /// The shard's coordinates.
    pub range: CoordinateRange,
    /// The epoch, or the number.
    pub epoch: u64,
}

/// Describes the lease of a shard, or the preparation of one.
///
/// `ledger` is the id of the ledger that `job` is in. `next_row` is the row that making begins with. Of `checkpoints`, those that are usable are listed piece by piece, as
/// far as they overlap `range`, in the order given.
pub fn grant<'a>(
    ledger: Nonce,
    job: &JobRecord,
    lease: Lease,
    next_row: u64,
    store_url: &str,
    checkpoints: impl IntoIterator<Item = &'a CheckpointRecord>,
) -> LeaseGrant {
    let Lease { shard, range, epoch } = lease;
    let usable = checkpoints.into_iter().filter(|checkpoint| is_usable(checkpoint, job));
    LeaseGrant {
        job: job.job.clone(),
        job_nonce: job.nonce,
        ledger,
        lineage: job.lineage.clone(),
        shard,
        range,
        epoch,
        dimension: job.dimension,
        plan_digest: job.plan_digest,
        layout_digest: job.layout_digest,
        key_commitment: job.key_commitment,
        next_row,
        store_url: store_url.to_owned(),
        pieces: usable.flat_map(|checkpoint| pieces_for(checkpoint, range)).collect(),
    }
}
