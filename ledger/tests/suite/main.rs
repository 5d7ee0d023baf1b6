//! The ledger and its checkpoint store, seen from outside.
#![allow(clippy::unwrap_used)]

mod against_model;
mod binding;
mod branches;
mod chain;
mod checkpoint_list;
mod checkpoint_objects;
mod cursor;
mod damage;
mod jobs;
mod migration;
mod shards;

use ledger::{JobRecord, JobState, Ledger, ShardRecord};
use proto::{Commitment, CoordinateRange, JobId, Lineage, RowRange};

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

pub(crate) fn job(name: &str) -> JobRecord {
    JobRecord {
        job: id(name),
        plan_toml: "mechanism = \"blt\"\n".to_owned(),
        plan_digest: [1; 32],
        dimension: 2000,
        iterations: ITERATIONS,
        mechanism: "blt".to_owned(),
        key_commitment: [2; 32],
        branch: 0,
        lineage: Lineage::default(),
        shards: 2,
        layout_epoch: 0,
        state: JobState::Running,
    }
}

pub(crate) fn two_shards() -> Vec<ShardRecord> {
    let shard = |shard, start, end| ShardRecord { shard, range: range(start, end), epoch: 0, owner: None };
    vec![shard(0, 0, 1024), shard(1, 1024, 2000)]
}

/// A ledger in its own folder, with the job `j`.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("state/ledger.redb")
    }

    pub(crate) fn open(&self) -> Ledger {
        Ledger::open(&self.path()).unwrap()
    }

    pub(crate) fn with_job(&self) -> Ledger {
        let ledger = self.open();
        ledger.create_job(&job("j"), &two_shards()).unwrap();
        ledger
    }
}
