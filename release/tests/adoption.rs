//! A copy of a ledger that is adopted: every running job has fresh noise from its first unbound row on, and nothing else
//! changes.
#![allow(clippy::unwrap_used)]

mod example;

use std::fs;
use std::path::Path;

use example::{NEW_NONCE, NONCE, PLAN};
use ledger::{AnchorPlace, JobState, Ledger, LedgerError};
use plan::Plan;
use proto::{Commitment, JobId, Nonce, RowRange, model::OpenBranch};
use release::adoption::{AdoptedJob, adopt};
use release::{binding::bind, branches::rewind, job::define};

fn job(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

fn row(ledger: &Ledger, name: &str, row: u64) -> Result<(), LedgerError> {
    let branch = ledger.job(&job(name))?.unwrap().branch;
    bind(ledger, &job(name), branch, RowRange::new(row, row + 1).unwrap(), &[Commitment::of_text("step")])?;
    Ok(())
}

/// Takes up a copy of the ledger, which is refused.
fn copied(from: &Path, to: &Path) -> (Ledger, AnchorPlace) {
    fs::copy(from, to).unwrap();
    let ledger = Ledger::open(to).unwrap();
    let place = AnchorPlace::of_ledger(to);
    ledger.take_up(&place, Nonce::from_bytes([30; 32])).unwrap();
    assert!(ledger.copied().is_some());
    (ledger, place)
}

#[test]
fn every_running_job_gets_a_branch_at_its_first_unbound_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    Ledger::init(&path, Nonce::from_bytes([1; 32])).unwrap();
    let ledger = Ledger::open(&path).unwrap();
    ledger.take_up(&AnchorPlace::of_ledger(&path), Nonce::from_bytes([20; 32])).unwrap();
    let plan = Plan::from_toml_str(PLAN).unwrap();
    let iterations = plan.iterations();
    // Rows before a rewind, rows with a gap, none, all, and a job that has ended.
    for (name, rows) in [
        ("rewound", vec![0, 1, 2]),
        ("gap", vec![0, 2]),
        ("new", vec![]),
        ("whole", (0..iterations).collect()),
        ("ended", vec![0]),
    ] {
        let defined = define(job(name), &plan, PLAN.to_owned(), 1_000, [7; 32], 1, NONCE).unwrap();
        ledger.create_job(&defined.record, &defined.shards).unwrap();
        rows.into_iter().for_each(|bound| row(&ledger, name, bound).unwrap());
    }
    rewind(&ledger, &job("rewound"), 2, 0, NEW_NONCE).unwrap();
    row(&ledger, "rewound", 2).unwrap();
    ledger.set_job_state(&job("ended"), JobState::Finished).unwrap();
    drop(ledger);

    let (copy, place) = copied(&path, &folder.path().join("copy.redb"));
    assert!(matches!(row(&copy, "new", 0), Err(LedgerError::Copied { .. })));
    let mut drawn = 100;
    let nonce = || {
        drawn += 1;
        Ok::<_, LedgerError>(Nonce::from_bytes([drawn; 32]))
    };
    let (adopted, jobs) = adopt(&copy, &place, nonce).unwrap();
    let expected = [("gap", 1, 1), ("new", 1, 0), ("rewound", 2, 3)];
    let expected = expected.map(|(name, branch, from_row)| AdoptedJob {
        job: job(name),
        branch: Some(branch),
        from_row,
    });
    assert_eq!(jobs, expected);
    for (name, next) in [("gap", 1), ("new", 0), ("rewound", 3)] {
        let lineage = adopted.job(&job(name)).unwrap().unwrap().lineage;
        assert!(lineage.nonces().iter().any(|(_, nonce)| nonce[0] > 100), "{name}: {lineage}");
        row(&adopted, name, next).unwrap();
    }
    // Bound rows are the same in both.
    row(&adopted, "whole", iterations - 1).unwrap();
}

/// Rewinds at rising rows have filled the lineage of one job, which no ordinary rewind makes longer.
#[test]
fn a_full_lineage_keeps_no_job_from_adoption() {
    // In memory where that is possible: two thousand changes, each durable.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("ledger.redb");
    Ledger::init(&path, Nonce::from_bytes([1; 32])).unwrap();
    let ledger = Ledger::open(&path).unwrap();
    ledger.take_up(&AnchorPlace::of_ledger(&path), Nonce::from_bytes([20; 32])).unwrap();
    let most = proto::Lineage::MAX_SEGMENTS as u64;
    let text = PLAN.replace("iterations = 10", "iterations = 2000");
    let plan = Plan::from_toml_str(&text).unwrap();
    let defined = define(job("full"), &plan, text.clone(), 1_000, [7; 32], 1, NONCE).unwrap();
    ledger.create_job(&defined.record, &defined.shards).unwrap();
    let other = define(job("other"), &plan, text, 1_000, [7; 32], 1, NONCE).unwrap();
    ledger.create_job(&other.record, &other.shards).unwrap();
    let open = |ledger: &Ledger, from_row, expected_branch| {
        let request = OpenBranch { job: job("full"), from_row, expected_branch, parent: None };
        ledger.open_branch(&request, Nonce::from_bytes([9; 32]))
    };
    row(&ledger, "full", 0).unwrap();
    for branch in 0..most - 1 {
        open(&ledger, branch + 1, branch).unwrap();
        row(&ledger, "full", branch + 1).unwrap();
    }
    assert!(matches!(open(&ledger, most, most - 1), Err(LedgerError::LineageFull { .. })));
    drop(ledger);

    let (copy, place) = copied(&path, &folder.path().join("copy.redb"));
    let mut drawn = 100;
    let nonce = || {
        drawn += 1;
        Ok::<_, LedgerError>(Nonce::from_bytes([drawn; 32]))
    };
    let (adopted, jobs) = adopt(&copy, &place, nonce).unwrap();
    let changed: Vec<_> = jobs.iter().map(|it| (it.job.as_str(), it.branch, it.from_row)).collect();
    assert_eq!(changed, [("full", Some(most), most), ("other", Some(1), 0)]);
    let segments = |name| adopted.job(&job(name)).unwrap().unwrap().lineage.segments().len() as u64;
    assert_eq!(segments("full"), most + 1);
    // Its rows are bound as before, and it is rewound to where its last segment begins.
    row(&adopted, "full", most).unwrap();
    assert!(matches!(open(&adopted, most + 1, most), Err(LedgerError::LineageFull { .. })));
    open(&adopted, most, most).unwrap();
    assert_eq!(segments("full"), most + 1);
}
