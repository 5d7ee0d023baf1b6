//! Tests clusters of two builds with different protocols: each refuses the other. Of the current protocol there is no older
//! build. `make mixed-builds` builds the older ones and runs these tests.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use proto::{PROTOCOL_VERSION, ServiceError};
use tempfile::TempDir;
use tests::{TestCluster, flags, job, plans, program, start_with};

const DIMENSION: u64 = 5_000;
const SHARDS: u32 = 4;
/// The protocols of the older builds.
const EARLIER: [u32; 2] = [2, 3];

fn older(protocol: u32) -> PathBuf {
    let today = program();
    let folder = today.ancestors().nth(2).expect("target/<profile>/rustle").join("older");
    let built = folder.join(format!("protocol-{protocol}")).join("rustle");
    assert!(built.is_file(), "{} is missing: tests/setup/older_builds.sh builds it", built.display());
    built
}

/// Which build the next process of a role is of.
struct Roles(TempDir);

impl Roles {
    fn new(coordinator: &Path, worker: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("#!/bin/sh\nexec {}/$1 \"$@\"\n", folder.path().display());
        fs::write(folder.path().join("start"), script).unwrap();
        fs::set_permissions(folder.path().join("start"), fs::Permissions::from_mode(0o755)).unwrap();
        let roles = Self(folder);
        roles.set("coordinator", coordinator);
        roles.set("worker", worker);
        roles
    }

    fn set(&self, role: &str, build: &Path) {
        let link = self.0.path().join(role);
        let draft = self.0.path().join("draft");
        std::os::unix::fs::symlink(fs::canonicalize(build).unwrap(), &draft).unwrap();
        fs::rename(draft, link).unwrap();
    }

    fn start(&self, workers: usize) -> TestCluster {
        start_with(workers, |options| {
            options.program = self.0.path().join("start");
            // Those that every build knows.
            options.coordinator_flags =
                flags(&["--heartbeat", "50ms", "--lease-ttl", "700ms", "--checkpoint-interval", "2s"]);
            // The default, given so that the cluster leaves the ledger to the coordinator: an older one begins its own.
            options.coordinator_flags.extend(flags(&["--store", "file"]));
            let [own, today] =
                [self.0.path().join("coordinator"), program()].map(|path| fs::canonicalize(path).unwrap());
            if own == today {
                coordinator::init_ledger(&options.dir.join("coordinator")).unwrap();
            }
        })
    }
}

/// The worker says why in its log, holds nothing, and the ledger is as before.
fn is_refused(coordinator: &Path, worker: &Path, words: &str) {
    let roles = Roles::new(coordinator, coordinator);
    let mut cluster = roles.start(0);
    let ledger = cluster.dir.path().join("coordinator/ledger.redb");
    let before = fs::read(&ledger).unwrap();
    roles.set("worker", worker);
    // It may listen before it is refused.
    let _ = cluster.cluster.add_worker();
    let log = cluster.dir.path().join("worker-0.log");
    cluster.wait_until("the worker has said why it ends", || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains(words))
    });
    cluster.wait_until("the worker has ended", || {
        cluster.cluster.worker(0).is_none_or(|worker| !worker.is_alive())
    });
    assert!(fs::read(&ledger).unwrap() == before, "the ledger has changed");
}

#[test]
#[ignore = "make mixed-builds"]
fn a_worker_of_an_earlier_protocol_is_refused_by_todays_coordinator() {
    for actual in EARLIER {
        let refused = ServiceError::ProtocolVersionMismatch { expected: PROTOCOL_VERSION, actual };
        is_refused(&program(), &older(actual), &refused.to_string());
    }
}

#[test]
#[ignore = "make mixed-builds"]
fn todays_worker_is_refused_by_a_coordinator_of_an_earlier_protocol() {
    for expected in EARLIER {
        let refused = ServiceError::ProtocolVersionMismatch { expected, actual: PROTOCOL_VERSION };
        is_refused(&older(expected), &program(), &refused.to_string());
    }
}

#[test]
#[ignore = "make mixed-builds"]
fn a_job_of_today_is_refused_by_a_coordinator_of_an_earlier_protocol() {
    for expected in EARLIER {
        let roles = Roles::new(&older(expected), &older(expected));
        let cluster = roles.start(1);
        let created = cluster.create(&job("mixed"), &plans()[0], DIMENSION, SHARDS);
        let refused = ServiceError::ProtocolVersionMismatch { expected, actual: PROTOCOL_VERSION };
        assert_eq!(created.map(drop), Err(refused));
    }
}
