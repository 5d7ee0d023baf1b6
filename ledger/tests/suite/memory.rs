//! The memory of a ledger, however much is bound.

use std::fs;

use ledger::Ledger;

use crate::{Place, commitment, id, job, rows, two_shards};

/// Rows of one commit.
const TOGETHER: u64 = 2_000;
const COMMITS: u64 = 500;

const MOST_BYTES: u64 = 80 << 20;

#[test]
fn a_ledger_larger_than_its_cache_takes_no_more_than_its_cache() {
    let place = Place::in_memory();
    let ledger = place.open();
    ledger.create_job(&long_job(), &two_shards()).unwrap();
    let before = bytes("VmRSS:");
    for commit in 0..COMMITS {
        bind(&ledger, commit);
    }
    let grown = bytes("VmRSS:").saturating_sub(before);
    let file = fs::metadata(place.path()).unwrap().len();
    assert!(file > 2 * MOST_BYTES, "{file} bytes on the disk are too few to tell");
    assert!(grown < MOST_BYTES, "{grown} bytes of memory for {file} on the disk");
    drop(ledger);

    // What is checked is not copied; the check and the open ledger have pages in memory one after the other.
    place.open();
    let peak = bytes("VmHWM:").saturating_sub(before);
    println!("a ledger of {file} bytes took {grown}, and {peak} at most while it was opened");
    assert!(peak < 2 * MOST_BYTES, "{peak} bytes of memory to open {file}");
}

fn long_job() -> ledger::JobRecord {
    ledger::JobRecord { iterations: TOGETHER * COMMITS, ..job("j") }
}

fn bind(ledger: &Ledger, commit: u64) {
    let range = rows(commit * TOGETHER, (commit + 1) * TOGETHER);
    let commitments: Vec<_> = (0..TOGETHER).map(|row| commitment(&format!("{commit} {row}"))).collect();
    ledger.bind(&id("j"), 0, range, &commitments).unwrap();
}

/// Reads a figure of this process, which is the test's own.
fn bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
