//! Tests that a worker reports its whole record of released rows to the coordinator, however long it is.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{fs, sync::Arc, time::Duration};

use noise_worker::release_log::ReleaseLog;
use proto::{JobId, Nonce, model::JobIdentity};
use tests::{assert_same_bits, job, ledger_id, plans, start};

const DIMENSION: u64 = 2_000;
/// More than two messages hold.
const JOBS: usize = 20_000;

fn other(number: usize) -> JobId {
    job(&format!("{}-{number}", "a-job-that-the-ledger-lost".repeat(2)))
}

/// A job that this ledger had and does not have any more.
fn lost(ledger: Nonce, number: usize) -> JobIdentity {
    let nonce = Nonce::from_bytes(std::array::from_fn(|at| (number >> (8 * (at % 4))) as u8));
    JobIdentity { ledger, nonce, job: other(number) }
}

#[test]
fn a_worker_with_a_long_record_serves_and_every_line_of_it_counts() {
    let mut cluster = start(0);
    let folder = cluster.dir.path().join("workers").join("worker-0");
    durable_io::create_private_folder(&folder).unwrap();
    let record = Arc::new(ReleaseLog::open(Some(&folder)).unwrap());
    cluster.cluster.kill_coordinator().unwrap();
    let ledger = ledger_id(&cluster.dir.path().join("coordinator/ledger.redb"));
    cluster.cluster.start_coordinator().unwrap();
    let branches = (0..JOBS).map(|number| (lost(ledger, number), 1)).collect();
    cluster.runtime.block_on(record.observe(ledger, 0, branches)).unwrap();
    drop(record);

    let own = job("own");
    let plan = &plans()[3];
    cluster.create(&own, plan, DIMENSION, 1).unwrap();
    cluster.cluster.add_worker().unwrap();
    let rows = cluster.fetch(&own, 0..3, 0..DIMENSION).unwrap();
    assert_same_bits(&rows, &cluster.expected(&own, plan, 0..3, 0..DIMENSION));

    // The message in which a job is reported is not fixed: of eight jobs, each message has some.
    for number in (0..JOBS).step_by(JOBS / 8) {
        cluster.create(&other(number), plan, DIMENSION, 1).unwrap();
        let mut said = String::new();
        cluster.wait_until("the record is reported", || {
            let texts = vec!["step 0".to_owned()];
            let bound = cluster.fetch_bound(&other(number), 0..1, 0..8, texts, Duration::from_millis(200));
            said = bound.err().map(|error| error.to_string()).unwrap_or_default();
            said.contains("branch 1 up to row 0")
        });
        assert!(said.contains("worker-0"), "{said}");
    }
}

/// A host that served another cluster keeps its record, and the new cluster has a job of the same name.
#[test]
fn a_new_cluster_under_an_old_name_is_served_beside_an_old_record() {
    let own = job("default");
    let plan = &plans()[3];
    let mut old = start(1);
    old.create(&own, plan, DIMENSION, 1).unwrap();
    // So that the record has a higher epoch than the new cluster will.
    for _ in 0..2 {
        old.cluster.kill_coordinator().unwrap();
        old.cluster.start_coordinator().unwrap();
    }
    let released = old.fetch(&own, 0..5, 0..DIMENSION).unwrap();
    old.cluster.kill_worker(0).unwrap();
    let record = fs::read(old.dir.path().join("workers/worker-0/released.log")).unwrap();

    let mut new = start(0);
    let folder = new.dir.path().join("workers").join("worker-0");
    durable_io::create_private_folder(&folder).unwrap();
    let path = folder.join("released.log");
    fs::write(&path, &record).unwrap();
    new.create(&own, plan, DIMENSION, 1).unwrap();
    new.cluster.add_worker().unwrap();
    let texts = (0..3).map(|row| format!("another step {row}")).collect();
    let rows = new.fetch_bound(&own, 0..3, 0..DIMENSION, texts, Duration::from_secs(20)).unwrap();
    assert_same_bits(&rows, &new.expected(&own, plan, 0..3, 0..DIMENSION));
    assert_ne!(rows, released[..3], "the noise of the old cluster");
    assert!(fs::read(&path).unwrap().starts_with(&record), "the old record was changed");
}
