//! A leader that ends on the spot at any step of a record in pieces: all of the record is there, or nothing of it.

use std::{env, fs, os::unix::process::ExitStatusExt, process::Command};

use ledger::{
    JobRecord, Ledger,
    etcd::{Election, EtcdConfig},
};
use proto::Commitment;

use crate::{LEASE, Place, commitment, elected, etcdctl, id, job, rows, two_shards};

/// Rows of one call, which are more than a request to etcd can have.
const MANY: u64 = 20_000;
/// The variable that names the store for the process that crashes.
const STORE: &str = "RUSTLE_TEST_STORE";
/// SIGABRT.
const ABORTED: i32 = 6;

fn many() -> Vec<Commitment> {
    (0..MANY).map(|row| commitment(&format!("{row}"))).collect()
}

fn bind_many(ledger: &Ledger) -> u64 {
    ledger.bind(&id("large"), 0, rows(1, 1 + MANY), &many()).unwrap().newly
}

fn bound(ledger: &Ledger) -> Vec<(u64, Commitment)> {
    ledger.bindings(&id("large"), 0, 0..2 * MANY).unwrap()
}

/// Returns the expected bindings where `all` of [`many`] are bound, or none.
fn expected(all: bool) -> Vec<(u64, Commitment)> {
    let many = many().into_iter().take(if all { MANY as usize } else { 0 });
    (0..).zip([commitment("zero")].into_iter().chain(many)).collect()
}

fn with_row_zero() -> Place {
    let place = Place::new();
    let ledger = place.open();
    ledger.create_job(&JobRecord { iterations: 2 * MANY, ..job("large") }, &two_shards()).unwrap();
    ledger.bind(&id("large"), 0, rows(0, 1), &[commitment("zero")]).unwrap();
    drop(ledger);
    place
}

fn pieces(place: &Place) -> usize {
    let keys = etcdctl(&["get", "--prefix", "--keys-only", &place.key("part/")]);
    keys.lines().filter(|line| !line.is_empty()).count()
}

#[test]
#[ignore = "it is the process that the tests below end"]
fn leads_and_binds_many() {
    let Ok(url) = env::var(STORE) else { return };
    let election = Election::connect(&EtcdConfig::parse(&url, None, LEASE).unwrap()).unwrap();
    bind_many(&Ledger::lead(elected(&election)).unwrap());
}

/// Runs a leader that opens the ledger, binds [`many`] and ends at a point that it has passed so many times.
fn end_at(place: &Place, point: &str, before: u64) {
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("end");
    fs::write(&asked, format!("{point} {before}")).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "ends::leads_and_binds_many", "--ignored", "--nocapture"])
        .env("RUSTLE_CRASH_AT", &asked)
        .env(STORE, place.config().name())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(ABORTED), "{point} {before}: {} {said}", output.status);
    assert!(!asked.exists(), "{point} {before}: it ended elsewhere: {said}");
    // No process needs to wait for the lease's end here.
    etcdctl(&["del", &place.key("leader")]);
}

#[test]
fn a_leader_that_ends_within_a_record_leaves_all_of_it_or_nothing() {
    if !durable_io::ARE_ARMABLE {
        println!("SKIPPED: built without the feature ledger/failpoints");
        return;
    }
    for (point, before, is_bound) in [
        ("etcd::part::begin", 0, false),
        ("etcd::part::begin", 2, false),
        ("etcd::part::end", 0, false),
        ("etcd::part::end", 1, false),
        ("etcd::record::begin", 0, false),
        ("etcd::record::end", 0, true),
    ] {
        let place = with_row_zero();
        end_at(&place, point, before);
        let written = pieces(&place);
        let least = match point {
            "etcd::part::begin" => before as usize,
            "etcd::part::end" => before as usize + 1,
            _ => 3,
        };
        assert!(written >= least, "{point} {before}: {written} pieces");
        let ledger = place.open();
        assert!(bound(&ledger) == expected(is_bound), "{point} {before}: {} rows", bound(&ledger).len());
        assert_eq!(pieces(&place), if is_bound { written } else { 0 }, "{point} {before}");
        assert_eq!(bind_many(&ledger), if is_bound { 0 } else { MANY }, "{point} {before}");
        ledger.bind(&id("large"), 0, rows(7, 8), &[commitment("thief")]).unwrap_err();
        drop(ledger);
        assert!(bound(&place.open()) == expected(true), "{point} {before}");
    }
}

#[test]
fn a_leader_that_ends_as_it_clears_up_leaves_that_to_the_next() {
    if !durable_io::ARE_ARMABLE {
        println!("SKIPPED: built without the feature ledger/failpoints");
        return;
    }
    let place = with_row_zero();
    for (point, before, left) in
        [("etcd::part::end", 1, 2), ("etcd::clear::begin", 0, 2), ("etcd::clear::end", 0, 0)]
    {
        end_at(&place, point, before);
        assert_eq!(pieces(&place), left, "{point}");
    }
    let ledger = place.open();
    assert!(bound(&ledger) == expected(false));
    assert_eq!(bind_many(&ledger), MANY);
    drop(ledger);
    assert!(bound(&place.open()) == expected(true));
}
