//! Grants: the lease of a shard as its owner receives it.

use ledger::JobRecord;
use proto::{CheckpointRecord, CoordinateRange, model::LeaseGrant, pieces_for};

use crate::checkpoints::is_usable;

/// Describes the lease of a shard, or the preparation of one.
///
/// `next_row` is the row that making begins with. Of `checkpoints`, those that are usable are listed piece by piece, as
/// far as they overlap `range`, in the order given.
pub fn grant<'a>(
    job: &JobRecord,
    shard: u32,
    range: CoordinateRange,
    epoch: u64,
    next_row: u64,
    store_url: &str,
    checkpoints: impl IntoIterator<Item = &'a CheckpointRecord>,
) -> LeaseGrant {
    let usable = checkpoints.into_iter().filter(|checkpoint| is_usable(checkpoint, job));
    LeaseGrant {
        job: job.job.clone(),
        job_nonce: job.nonce,
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
