//! The ledger, seen from outside.
#![allow(clippy::unwrap_used)]

mod against_model;
mod altered_archives;
mod altered_charges;
mod approval_chains;
mod approval_fixture;
mod approvals;
mod archives;
mod archives_and_replay;
mod backup;
mod binding;
mod blocks;
mod branches;
mod chain;
mod checkpoint_list;
mod compacting;
mod copies;
mod cursor;
mod damage;
mod data_sets;
mod faults;
mod formats;
mod jobs;
mod memory;
mod offline;
mod parts;
mod seen;
mod shards;

use ledger::Ledger;

pub(crate) use parts::{ITERATIONS, commitment, id, job, nonce, range, rows, two_shards};

/// Returns whether these tests run at full size, not a slice of it.
pub(crate) fn is_long() -> bool {
    std::env::var_os("RUSTLE_LONG").is_some()
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A ledger in its own folder, with the job `j`.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Returns a place in memory, where the system has a folder there: long runs (RUSTLE_LONG) would take hours on a disk.
    pub(crate) fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self { folder: folder.unwrap() }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("state/ledger.redb")
    }

    /// Opens the ledger, which is begun if there is none.
    pub(crate) fn open(&self) -> Ledger {
        if !self.path().exists() {
            Ledger::init(&self.path(), proto::Nonce::from_bytes([0x11; 32])).unwrap();
        }
        Ledger::open(&self.path()).unwrap()
    }

    pub(crate) fn with_job(&self) -> Ledger {
        let ledger = self.open();
        ledger.create_job(&job("j"), &two_shards()).unwrap();
        ledger
    }
}
