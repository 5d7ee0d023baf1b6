//! Tests that a worker reports its whole record of released rows to the coordinator, however long it is.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{sync::Arc, time::Duration};

use noise_worker::release_log::ReleaseLog;
use proto::JobId;
use tests::{assert_same_bits, job, plans, start};

const DIMENSION: u64 = 2_000;
/// More than two messages hold.
const JOBS: usize = 20_000;

fn other(number: usize) -> JobId {
    job(&format!("{}-{number}", "a-job-of-another-ledger".repeat(2)))
}

#[test]
fn a_worker_with_a_long_record_serves_and_every_line_of_it_counts() {
    let mut cluster = start(0);
    let folder = cluster.dir.path().join("workers").join("worker-0");
    durable_io::create_private_folder(&folder).unwrap();
    let record = Arc::new(ReleaseLog::open(Some(&folder)).unwrap());
    let branches = (0..JOBS).map(|number| (other(number), 1)).collect();
    cluster.runtime.block_on(record.observe(0, branches)).unwrap();
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
