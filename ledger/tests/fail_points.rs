//! A ledger's new name is there before its folder is synced, and a folder that can't be synced is passed over nowhere. What fails
//! or ends between the steps of a change is found.
//! `cargo nextest run -p ledger --features failpoints`
#![allow(clippy::unwrap_used)] // a test says best where it stands

#[path = "suite/parts.rs"]
mod parts;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fail::FailScenario;
use ledger::{AnchorPlace, JobState, Ledger, LedgerError};
use proto::Nonce;

use parts::{commitment, id, job, rows, two_shards};

const ID: Nonce = Nonce::from_bytes([7; 32]);

/// Returns whether the ledger's folder and the ledger in it existed, before each sync of a folder.
fn seen_at_syncs(path: &Path, open: impl FnOnce()) -> Vec<(bool, bool)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let folder = path.parent().unwrap().to_owned();
    let ledger = path.to_owned();
    fail::cfg_callback("folder::sync", move || {
        sees.lock().unwrap().push((folder.exists(), ledger.exists()));
    })
    .unwrap();
    open();
    fail::remove("folder::sync");
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn a_ledgers_folder_is_synced_once_its_name_is_there() {
    let scenario = FailScenario::setup();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/ledger.redb");
    let seen = seen_at_syncs(&path, || Ledger::init(&path, ID).unwrap());
    // The folder's own name, then the ledger's.
    assert_eq!(seen, [(true, false), (true, true)]);
    // The process that created it may have ended before.
    let seen = seen_at_syncs(&path, || drop(Ledger::open(&path).unwrap()));
    assert_eq!(seen, [(true, true)]);
    scenario.teardown();
}

#[test]
fn a_ledger_whose_folder_cant_be_synced_is_neither_begun_nor_opened() {
    let scenario = FailScenario::setup();
    for before in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/ledger.redb");
        fail::cfg("folder::sync", &format!("{before}*off->return")).unwrap();
        let opened = Ledger::init(&path, ID).and_then(|()| Ledger::open(&path));
        let error = opened.err().expect("a sync failed, and the ledger is open");
        assert!(
            matches!(&error, LedgerError::Io { reason, .. } if reason.contains("a fail point")),
            "{error}"
        );
        fail::remove("folder::sync");
        if !path.exists() {
            Ledger::init(&path, ID).unwrap();
        }
        Ledger::open(&path).unwrap();
    }
    scenario.teardown();
}

/// The anchor announces an opening that the ledger has or has not: whatever of the two happened raises no alarm.
#[test]
fn an_opening_that_fails_between_anchor_and_ledger_raises_no_alarm() {
    let scenario = FailScenario::setup();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    let place = AnchorPlace::of_ledger(&path);
    Ledger::init(&path, ID).unwrap();
    let mut opening = 0;
    let mut take_up = || {
        opening += 1;
        let ledger = Ledger::open(&path).unwrap();
        ledger.take_up(&place, Nonce::from_bytes([opening; 32])).map(|()| ledger.copied().is_some())
    };
    for _ in 0..2 {
        for step in ["begin", "before_commit", "after_commit"] {
            fail::cfg(format!("ledger::take_up::{step}"), "1*return").unwrap();
            take_up().expect_err(step);
            fail::remove(format!("ledger::take_up::{step}"));
            assert!(!take_up().unwrap(), "an alarm after {step}");
        }
        // Several in a row.
        fail::cfg("ledger::take_up::after_commit", "2*return").unwrap();
        (0..2).for_each(|_| drop(take_up().unwrap_err()));
        fail::remove("ledger::take_up::after_commit");
        assert!(!take_up().unwrap(), "an alarm after two");
    }
    scenario.teardown();
}

/// A commit may hang for longer than the lease lasts.
#[test]
fn rows_that_were_bound_beyond_the_lease_are_not_granted_until_there_is_one_again() {
    const LONG: Duration = Duration::from_secs(3600);
    let scenario = FailScenario::setup();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    Ledger::init(&path, ID).unwrap();
    let ledger = Ledger::open(&path).unwrap();
    ledger.create_job(&job("j"), &two_shards()).unwrap();
    let lease = ledger.require_lease("s3://bucket", std::time::Instant::now);
    let bind = |text: &str| ledger.bind(&id("j"), 0, rows(0, 1), &[commitment(text)]);
    lease.prolong(Instant::now() + LONG);
    let ending = lease.clone();
    fail::cfg_callback("ledger::bind::before_commit", move || ending.end()).unwrap();
    let refused = bind("x").expect_err("the lease ended before the commit");
    fail::remove("ledger::bind::before_commit");
    assert!(matches!(refused, LedgerError::Unanchored { .. }), "{refused}");
    lease.prolong(Instant::now() + LONG);
    assert_eq!(bind("x").unwrap().newly, 0, "the row is bound, and the same call gets it");
    assert!(matches!(bind("y"), Err(LedgerError::AlreadyBound { .. })));
    scenario.teardown();
}

/// What is gone for good is named, whatever fails after it.
#[test]
fn an_archiving_that_fails_half_way_names_the_jobs_that_are_archived() {
    let scenario = FailScenario::setup();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    Ledger::init(&path, ID).unwrap();
    let ledger = Ledger::open(&path).unwrap();
    for name in ["a", "b"] {
        ledger.create_job(&job(name), &two_shards()).unwrap();
        ledger.set_job_state(&id(name), JobState::Destroyed).unwrap();
    }
    drop(ledger);
    fail::cfg("ledger::archive::before_commit", "1*off->return").unwrap();
    let error = Ledger::compact(&path).unwrap_err();
    fail::remove("ledger::archive::before_commit");
    assert!(matches!(&error, LedgerError::ArchivedInPart { jobs, .. } if jobs == "a"), "{error}");
    let command = format!("`rustle ledger compact --file {}`", path.display());
    assert!(error.to_string().contains(&command), "{error}");
    // The folder is synced when the file is opened: the second time, to give room back.
    fail::cfg("folder::sync", "1*off->return").unwrap();
    let error = Ledger::compact(&path).unwrap_err();
    fail::remove("folder::sync");
    assert!(matches!(&error, LedgerError::ArchivedInPart { jobs, .. } if jobs == "b"), "{error}");
    assert!(Ledger::compact(&path).unwrap().archived.is_empty());
    scenario.teardown();
}
