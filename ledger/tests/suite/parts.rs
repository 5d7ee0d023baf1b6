//! What the tests of a ledger are made of.

use ledger::{JobRecord, JobState, ShardRecord};
use proto::{Commitment, CoordinateRange, JobId, Lineage, Nonce, RowRange};

pub(crate) const ITERATIONS: u64 = 100;

pub(crate) fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub(crate) fn rows(start: u64, end: u64) -> RowRange {
    RowRange::new(start, end).unwrap()
}

pub(crate) fn range(start: u64, end: u64) -> CoordinateRange {
    CoordinateRange::new(start, end).unwrap()
}

pub(crate) fn commitment(text: &str) -> Commitment {
    Commitment::of_text(text)
}

/// The nonce of a branch, here a number of its own; that of branch 0 is the job's.
pub(crate) fn nonce(branch: u64) -> Nonce {
    let mut bytes = [0x77; 32];
    bytes[..8].copy_from_slice(&branch.to_le_bytes());
    Nonce::from_bytes(bytes)
}

pub(crate) fn job(name: &str) -> JobRecord {
    JobRecord {
        job: id(name),
        nonce: nonce(0),
        plan_toml: "mechanism = \"blt\"\n".to_owned(),
        plan_digest: [1; 32],
        dimension: 2000,
        layout_digest: [3; 32],
        iterations: ITERATIONS,
        mechanism: "blt".to_owned(),
        key_commitment: [2; 32],
        branch: 0,
        lineage: Lineage::of_job(nonce(0)),
        shards: 2,
        layout_epoch: 0,
        state: JobState::Running,
    }
}

pub(crate) fn two_shards() -> Vec<ShardRecord> {
    let shard = |shard, start, end| ShardRecord { shard, range: range(start, end), epoch: 0, owner: None };
    vec![shard(0, 0, 1024), shard(1, 1024, 2000)]
}
