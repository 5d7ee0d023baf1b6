//! Jobs and the coordinator's epoch, across restarts.

use ledger::{Created, JobRecord, JobState, LedgerError};
use proto::WorkerId;

use crate::{Place, commitment, id, job, range, rows, two_shards};

#[test]
fn everything_is_there_after_a_restart() {
    let place = Place::new();
    let ledger = place.with_job();
    let owner = WorkerId::new("w1").unwrap();
    let shards = ledger.set_owners(&id("j"), &[(1, Some(owner))]).unwrap();
    ledger.bind(&id("j"), 0, rows(3, 5), &[commitment("a"), commitment("b")]).unwrap();
    let epoch = ledger.next_coordinator_epoch().unwrap();
    drop(ledger);

    let ledger = place.open();
    assert_eq!(ledger.job(&id("j")).unwrap(), Some(job("j")));
    assert_eq!(ledger.jobs().unwrap(), vec![job("j")]);
    assert_eq!(ledger.shards(&id("j")).unwrap(), shards);
    let bound = vec![(3, commitment("a")), (4, commitment("b"))];
    assert_eq!(ledger.bindings(&id("j"), 0, 0..100).unwrap(), bound);
    assert_eq!(ledger.bindings(&id("j"), 0, 4..100).unwrap(), bound[1..]);
    let summary = ledger.binding_summary(&id("j"), 0).unwrap();
    assert_eq!((summary.rows_bound, summary.next_row), (2, 5));
    assert_eq!(ledger.next_coordinator_epoch().unwrap(), epoch + 1);
}

#[test]
fn a_job_is_created_once_under_one_definition() {
    let place = Place::new();
    let ledger = place.open();
    assert_eq!(ledger.create_job(&job("j"), &two_shards()).unwrap(), Created::New);
    assert_eq!(ledger.create_job(&job("j"), &two_shards()).unwrap(), Created::Existing);
    ledger.replace_shards(&id("j"), &[range(0, 2000)]).unwrap();
    assert_eq!(
        ledger.create_job(&job("j"), &two_shards()).unwrap(),
        Created::Existing,
        "layout is no definition"
    );
    for other in [
        JobRecord { plan_digest: [9; 32], ..job("j") },
        JobRecord { key_commitment: [9; 32], ..job("j") },
        JobRecord { layout_digest: [9; 32], ..job("j") },
        JobRecord { iterations: 7, ..job("j") },
        JobRecord { mechanism: "identity".to_owned(), ..job("j") },
    ] {
        let refused = ledger.create_job(&other, &two_shards()).unwrap_err();
        assert!(matches!(refused, LedgerError::AlreadyExists { what: "job", .. }), "{refused}");
    }
    ledger.set_job_state(&id("j"), JobState::Destroyed).unwrap();
    assert!(matches!(ledger.create_job(&job("j"), &two_shards()), Err(LedgerError::JobState { .. })));
}

#[test]
fn a_state_never_goes_back() {
    let place = Place::new();
    let ledger = place.with_job();
    let set = |state| ledger.set_job_state(&id("j"), state);
    let finished = JobRecord { state: JobState::Finished, ..job("j") };
    assert_eq!(set(JobState::Finished).unwrap(), finished);
    assert_eq!(set(JobState::Finished).unwrap(), finished);
    assert!(matches!(set(JobState::Running), Err(LedgerError::JobState { .. })));
    set(JobState::Destroyed).unwrap();
    assert!(matches!(set(JobState::Finished), Err(LedgerError::JobState { .. })));
    assert!(matches!(ledger.set_job_state(&id("k"), JobState::Finished), Err(LedgerError::NotFound { .. })));
}

#[test]
fn one_jobs_rows_are_not_anothers() {
    let place = Place::new();
    let ledger = place.with_job();
    for name in ["j1", "j-", "i"] {
        ledger.create_job(&job(name), &two_shards()).unwrap();
        ledger.bind(&id(name), 0, rows(0, 1), &[commitment(name)]).unwrap();
    }
    assert_eq!(ledger.bindings(&id("j"), 0, 0..u64::MAX).unwrap(), vec![]);
    assert_eq!(ledger.bindings(&id("j1"), 0, 0..9).unwrap(), vec![(0, commitment("j1"))]);
}
