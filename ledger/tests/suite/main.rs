//! The ledger and its checkpoint store, seen from outside.
#![allow(clippy::unwrap_used)]

mod against_model;
mod binding;
mod checkpoint_list;
mod checkpoint_objects;
mod damage;
mod jobs;
mod shards;

use ledger::{JobRecord, JobState, Ledger, ShardRecord};
use proto::{Commitment, CoordinateRange, JobId, RowRange};

pub const ITERATIONS: u64 = 100;

pub fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub fn rows(start: u64, end: u64) -> RowRange {
    RowRange::new(start, end).unwrap()
}

pub fn range(start: u64, end: u64) -> CoordinateRange {
    CoordinateRange::new(start, end).unwrap()
}

pub fn commitment(text: &str) -> Commitment {
    Commitment::of_text(text)
}

pub fn job(name: &str) -> JobRecord {
    JobRecord {
        job: id(name),
        plan_toml: "mechanism = \"blt\"\n".to_owned(),
        plan_digest: [1; 32],
        dimension: 2000,
        iterations: ITERATIONS,
        mechanism: "blt".to_owned(),
        key_commitment: [2; 32],
        branch: 0,
        shards: 2,
        layout_epoch: 0,
        state: JobState::Running,
    }
}

pub fn two_shards() -> Vec<ShardRecord> {
    let shard = |shard, start, end| ShardRecord { shard, range: range(start, end), epoch: 0, owner: None };
    vec![shard(0, 0, 1024), shard(1, 1024, 2000)]
}

/// A ledger in its own folder, with the job `j`.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("state/ledger.redb")
    }

    pub fn open(&self) -> Ledger {
        Ledger::open(&self.path()).unwrap()
    }

    pub fn with_job(&self) -> Ledger {
        let ledger = self.open();
        ledger.create_job(&job("j"), &two_shards()).unwrap();
        ledger
    }
}
