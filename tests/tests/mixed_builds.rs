//! Tests clusters of two builds: one with the same protocol works with the current build, one with another is refused.
//! `make mixed-builds` builds the older ones and runs these tests.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    fs,
    ops::Range,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use plan::Plan;
use proto::{JobId, PROTOCOL_VERSION, ServiceError};
use tempfile::TempDir;
use tests::{TestCluster, assert_same_bits, expected, flags, job, plans, program, start_with};

const DIMENSION: u64 = 5_000;
const SHARDS: u32 = 4;
const SAME_PROTOCOL: &str = "protocol-3";
const LAST_PROTOCOL: &str = "protocol-2";

fn older(name: &str) -> PathBuf {
    let today = program();
    let built =
        today.ancestors().nth(2).expect("target/<profile>/rustle").join("older").join(name).join("rustle");
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
        })
    }
}

/// Returns the program that a process runs, from the kernel.
fn build_of(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

fn check_rows(cluster: &TestCluster, jobs: &[(JobId, Plan)], rows: Range<u64>) {
    for (job, plan) in jobs {
        cluster.wait_ready(job);
        let got = cluster.fetch(job, rows.clone(), 0..DIMENSION).unwrap();
        assert_same_bits(&got, &expected(job, plan, rows.clone(), 0..DIMENSION));
        let texts = vec!["another batch".to_owned()];
        let patience = Duration::from_secs(5);
        let refused = cluster.fetch_bound(job, rows.start..rows.start + 1, 0..1, texts, patience);
        assert_eq!(refused.unwrap_err().kind(), "already_bound");
    }
}

/// One build of the coordinator, one worker of each; then the coordinator and the first worker become the other build.
fn goes_on_across(before: &Path, after: &Path) {
    let roles = Roles::new(before, before);
    let mut cluster = roles.start(1);
    roles.set("worker", after);
    cluster.cluster.add_worker().unwrap();
    let jobs: Vec<_> = (plans().into_iter().enumerate())
        .map(|(number, plan)| (job(&format!("mixed-{number}")), plan))
        .collect();
    for (job, plan) in &jobs {
        cluster.create(job, plan, DIMENSION, SHARDS).unwrap();
    }
    check_rows(&cluster, &jobs, 0..6);
    let pids = |cluster: &TestCluster| {
        let processes = [cluster.cluster.coordinator(), cluster.cluster.worker(0), cluster.cluster.worker(1)];
        processes.map(|process| build_of(process.unwrap().pid()))
    };
    let [before, after] = [before, after].map(|build| fs::canonicalize(build).unwrap());
    assert_eq!(pids(&cluster), [&before, &before, &after].map(Clone::clone));

    roles.set("coordinator", &after);
    cluster.cluster.kill_coordinator().unwrap();
    cluster.cluster.start_coordinator().unwrap();
    check_rows(&cluster, &jobs, 0..12);
    cluster.cluster.kill_worker(0).unwrap();
    cluster.cluster.start_worker(0).unwrap();
    check_rows(&cluster, &jobs, 3..20);
    assert_eq!(pids(&cluster), [&after, &after, &after].map(Clone::clone));
}

#[test]
#[ignore = "make mixed-builds"]
fn an_older_build_of_this_protocol_is_replaced_by_todays_one_process_at_a_time() {
    goes_on_across(&older(SAME_PROTOCOL), &program());
}

#[test]
#[ignore = "make mixed-builds"]
fn todays_build_is_replaced_by_an_older_one_of_this_protocol() {
    goes_on_across(&program(), &older(SAME_PROTOCOL));
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
fn a_worker_of_the_last_protocol_is_refused_by_todays_coordinator() {
    let refused = ServiceError::ProtocolVersionMismatch { expected: PROTOCOL_VERSION, actual: 2 };
    is_refused(&program(), &older(LAST_PROTOCOL), &refused.to_string());
}

#[test]
#[ignore = "make mixed-builds"]
fn todays_worker_is_refused_by_a_coordinator_of_the_last_protocol() {
    let refused = ServiceError::ProtocolVersionMismatch { expected: 2, actual: PROTOCOL_VERSION };
    is_refused(&older(LAST_PROTOCOL), &program(), &refused.to_string());
}

#[test]
#[ignore = "make mixed-builds"]
fn a_job_of_today_is_refused_by_a_coordinator_of_the_last_protocol() {
    let roles = Roles::new(&older(LAST_PROTOCOL), &older(LAST_PROTOCOL));
    let cluster = roles.start(1);
    let created = cluster.create(&job("mixed"), &plans()[0], DIMENSION, SHARDS);
    let refused = ServiceError::ProtocolVersionMismatch { expected: 2, actual: PROTOCOL_VERSION };
    assert_eq!(created.map(drop), Err(refused));
}
