//! Rewinding: fresh Z under a new number, the old one fenced.

use ledger::{JobState, Ledger, LedgerError, OpenedBranch, Result};
use proto::{ServiceError, model::OpenBranch};

use crate::{ITERATIONS, Place, commitment, id, nonce, rows};

fn rewind(ledger: &Ledger, from_row: u64, expected_branch: u64) -> Result<OpenedBranch> {
    let request = OpenBranch { job: id("j"), from_row, expected_branch, parent: None };
    ledger.open_branch(&request, nonce(expected_branch + 1))
}

fn bound_to(rows: u64) -> (Place, Ledger) {
    let place = Place::new();
    let ledger = place.with_job();
    bind(&ledger, 0, 0, rows, "first").unwrap();
    (place, ledger)
}

fn bind(ledger: &Ledger, branch: u64, start: u64, end: u64, text: &str) -> Result<ledger::BindOutcome> {
    ledger.bind(&id("j"), branch, rows(start, end), &vec![commitment(text); (end - start) as usize])
}

#[test]
fn a_rewound_row_may_be_bound_again_and_one_before_may_not() {
    let (place, ledger) = bound_to(10);
    let opened = rewind(&ledger, 4, 0).unwrap();
    assert_eq!((opened.job.branch, opened.job.lineage.rows_and_branches()), (1, "0..4=0,4..=1".to_owned()));
    let nonces: Vec<_> = opened.job.lineage.segments().iter().map(|segment| segment.nonce).collect();
    assert_eq!(nonces, [nonce(0), nonce(1)]);
    assert_eq!(ledger.binding_summary(&id("j"), 1).unwrap().next_row, 4);
    drop(ledger);

    let ledger = place.open();
    bind(&ledger, 1, 4, 6, "second").unwrap();
    bind(&ledger, 1, 2, 4, "first").unwrap();
    let kept = bind(&ledger, 1, 3, 5, "second").unwrap_err();
    assert!(matches!(kept, LedgerError::AlreadyBound { row: 3, branch: 0, .. }), "{kept}");
    let old = bind(&ledger, 0, 4, 5, "first").unwrap_err();
    assert!(matches!(old, LedgerError::BranchSuperseded { branch: 0, current: 1, from_row: 4, .. }), "{old}");
    assert!(!ServiceError::from(old).retry_safe());

    let released = ledger.released(&id("j")).unwrap();
    let shown: Vec<_> =
        released.iter().map(|b| (b.branch, b.parent, b.from_row, b.released.clone())).collect();
    assert_eq!(shown, [(0, None, 0, vec![rows(0, 10)]), (1, Some(0), 4, vec![rows(4, 6)])]);
}

#[test]
fn what_can_not_be_rewound_is_refused_by_name() {
    let (_place, ledger) = bound_to(10);
    let beyond = rewind(&ledger, 11, 0).unwrap_err();
    assert!(matches!(beyond, LedgerError::Invalid { field: "from_row", .. }), "{beyond}");
    assert!(beyond.to_string().contains("0 to 10"), "{beyond}");
    let past_the_end = rewind(&ledger, ITERATIONS, 0).unwrap_err();
    assert!(matches!(past_the_end, LedgerError::RowBeyondIterations { .. }), "{past_the_end}");
    let other = rewind(&ledger, 4, 1).unwrap_err();
    assert!(matches!(other, LedgerError::BranchSuperseded { branch: 1, current: 0, .. }), "{other}");
    ledger.set_job_state(&id("j"), JobState::Finished).unwrap();
    assert!(matches!(rewind(&ledger, 4, 0), Err(LedgerError::JobState { .. })));
    assert_eq!(ledger.job(&id("j")).unwrap().unwrap().branch, 0);
}

#[test]
fn the_same_rewind_again_is_the_same_branch_until_something_is_bound() {
    let (_place, ledger) = bound_to(10);
    let first = rewind(&ledger, 4, 0).unwrap();
    let again = rewind(&ledger, 4, 0).unwrap();
    assert_eq!((first.newly, again.newly), (true, false));
    assert_eq!((again.job, again.shards), (first.job, first.shards));
    assert!(rewind(&ledger, 3, 0).is_err(), "another row");
    bind(&ledger, 1, 4, 5, "second").unwrap();
    assert!(matches!(rewind(&ledger, 4, 0), Err(LedgerError::BranchSuperseded { .. })));
}

#[test]
fn a_branch_fences_every_shard() {
    let (_place, ledger) = bound_to(3);
    let owner = Some(proto::WorkerId::new("w").unwrap());
    let before = ledger.set_owners(&id("j"), &[(1, owner.clone())]).unwrap();
    let after = rewind(&ledger, 3, 0).unwrap().shards;
    assert!(before.iter().zip(&after).all(|(old, new)| new.epoch > old.epoch));
    assert_eq!(after[1].owner, owner);
    assert_eq!(ledger.shards(&id("j")).unwrap(), after);
}

/// A training job that resumes on a branch that was left meanwhile: its rows are not the current branch's.
#[test]
fn a_branch_can_be_opened_from_one_that_was_left() {
    let (_place, ledger) = bound_to(10);
    rewind(&ledger, 4, 0).unwrap();
    bind(&ledger, 1, 4, 9, "second").unwrap();
    let request = OpenBranch { job: id("j"), from_row: 8, expected_branch: 1, parent: Some(0) };
    assert_eq!(
        ledger.open_branch(&request, nonce(2)).unwrap().job.lineage.rows_and_branches(),
        "0..8=0,8..=2"
    );
    assert_eq!(ledger.lineage(&id("j"), 1).unwrap().rows_and_branches(), "0..4=0,4..=1");
    bind(&ledger, 2, 6, 9, "first").unwrap();
}
