//! Twenty ordinary operations raise no alarm: after each, the cluster has no problem that names a ledger, its job is on the branch
//! that it was on, and its rows have the bits that they would have had (`running`, `stopped`).
//!
//! An alarm that rings for a reboot is one that people learn to ignore.
#![allow(clippy::unwrap_used)] // a test says best where it stands

mod running;
mod stopped;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use plan::Plan;
use proto::JobId;
use serde_json::Value;
use tests::{TestCluster, assert_same_bits, flags, job, plans, start_with};

const DIMENSION: u64 = 2_500;

/// Longest wait for what must happen; generous for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Problems that an operation may leave for a while: an operator who removes a worker for good reads that it is gone.
const OF_WORKERS: [&str; 3] = ["worker_gone", "no_worker", "shards_not_served"];

fn name() -> JobId {
    job("trained")
}

/// Starts two workers and their coordinator in `folder`.
fn start_in(folder: &Path) -> TestCluster {
    start_with(2, |options| {
        options.dir = folder.to_owned();
        options.coordinator_flags = coordinator_flags(folder);
    })
}

/// A lease that workers renew in time on a busy machine too, and checkpoints outside of the data folder, where the ledger has
/// an anchor as well: beside the cluster's folder, so that it stays where it is when that is moved.
fn coordinator_flags(folder: &Path) -> Vec<String> {
    let mut all = flags(&["--heartbeat", "50ms", "--lease-ttl", "2s", "--checkpoint-interval", "0s"]);
    let store = folder.with_file_name("store");
    all.extend(["--checkpoint-url".to_owned(), format!("file://{}", store.display())]);
    all
}

/// Creates the job and releases its first rows.
fn train(cluster: &TestCluster) {
    cluster.create(&name(), &plan(), DIMENSION, 2).unwrap();
    check_rows(cluster, 0..3);
}

fn plan() -> Plan {
    plans().swap_remove(3)
}

/// Releases rows, which have to be those of branch 0.
#[track_caller]
fn check_rows(cluster: &TestCluster, rows: Range<u64>) {
    let texts = rows.clone().map(|row| format!("step {row}")).collect();
    let got = cluster.fetch_bound(&name(), rows.clone(), 0..DIMENSION, texts, TIMEOUT).unwrap();
    assert_same_bits(&got, &cluster.expected(&name(), &plan(), rows, 0..DIMENSION));
}

/// Checks that the job continues where it was, and that nothing is wrong in the end but what `allowed` names.
#[track_caller]
fn check_calm(cluster: &TestCluster, allowed: &[&str]) {
    // An alarm that rings and ends is one too.
    assert_no_alarm(cluster);
    // Rows that were released are released again under the same commitments, and new ones follow.
    check_rows(cluster, 0..6);
    assert_eq!(cluster.noise_id(&name()).lineage.branch(), 0, "the job went to a branch");
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let kinds = assert_no_alarm(cluster);
        if kinds.iter().all(|kind| allowed.contains(&kind.as_str())) {
            return;
        }
        assert!(Instant::now() < deadline, "there are still problems: {kinds:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Checks that no problem is about other than workers, and returns the kinds of all.
#[track_caller]
fn assert_no_alarm(cluster: &TestCluster) -> Vec<String> {
    let kinds = problems(cluster);
    let alarm = kinds.iter().find(|kind| !OF_WORKERS.contains(&kind.as_str()));
    assert_eq!(alarm, None, "an alarm");
    kinds
}

/// Returns the kinds of the problems that the cluster reports. A full disk of the machine that runs the tests is another matter.
fn problems(cluster: &TestCluster) -> Vec<String> {
    let status = cluster.runtime.block_on(cluster.client.jobs().status()).unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let kinds =
        status["problems"].as_array().unwrap().iter().map(|problem| problem["kind"].as_str().unwrap());
    kinds.filter(|kind| *kind != "disk_fills").map(str::to_owned).collect()
}
