//! Cursors: a job's place in a training checkpoint.

use ledger::{JobCursor, Ledger, LedgerError};
use proto::{Commitment, ServiceError, model::OpenBranch};

use crate::{Place, commitment, id, nonce, rows};

const LAYOUT: [u8; 32] = [5; 32];

fn bind(ledger: &Ledger, branch: u64, start: u64, end: u64) {
    let commitments = vec![commitment("c"); (end - start) as usize];
    ledger.bind(&id("j"), branch, rows(start, end), &commitments).unwrap();
}

fn rewind(ledger: &Ledger, from_row: u64, expected_branch: u64, parent: u64) {
    let request = OpenBranch { job: id("j"), from_row, expected_branch, parent: Some(parent) };
    ledger.open_branch(&request, nonce(expected_branch + 1)).unwrap();
}

#[test]
fn a_cursor_survives_its_bytes_and_no_change_of_them() {
    let place = Place::new();
    let ledger = place.with_job();
    bind(&ledger, 0, 0, 5);
    let cursor = ledger.cursor(&id("j"), LAYOUT, None).unwrap();
    assert_eq!((cursor.branch, cursor.next_row, cursor.head), (0, 5, ledger.head(&id("j")).unwrap()));
    let bytes = cursor.to_bytes();
    assert!(bytes.len() < 1024);
    assert_eq!(JobCursor::from_bytes(&bytes).unwrap(), cursor);
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert!(JobCursor::from_bytes(&altered).is_err(), "byte {at}");
        assert!(JobCursor::from_bytes(&bytes[..at]).is_err(), "cut to {at}");
    }
    let newer = JobCursor::from_bytes(&[&[9], &bytes[1..]].concat()).unwrap_err();
    assert!(newer.to_string().contains("version 9"), "{newer}");
}

#[test]
fn a_cursor_says_what_has_happened_since() {
    let place = Place::new();
    let ledger = place.with_job();
    bind(&ledger, 0, 0, 5);
    let cursor = ledger.cursor(&id("j"), LAYOUT, None).unwrap();
    let check = || ledger.check_cursor(&id("j"), LAYOUT, &cursor).unwrap();
    assert!(check().continues(&cursor) && check() == check());
    ledger.bind(&id("j"), 0, rows(5, 6), &[Commitment::exact([1; 32])]).unwrap();
    assert_eq!((check().rows_beyond, check().replayable, check().continues(&cursor)), (1, true, false));
    bind(&ledger, 0, 6, 8);
    assert_eq!((check().rows_beyond, check().replayable), (3, false));
    rewind(&ledger, 5, 0, 0);
    assert_eq!((check().current_branch, check().resumed_already), (1, true));
    bind(&ledger, 1, 5, 6);
    assert!(!check().resumed_already);
    assert!(ledger.cursor(&id("j"), LAYOUT, Some(7)).is_err());
    // Rows 2 to 4 are bound on the branch before, and row 5 on this one: going on would meet them.
    let early = ledger.cursor(&id("j"), LAYOUT, Some(2)).unwrap();
    let state = ledger.check_cursor(&id("j"), LAYOUT, &early).unwrap();
    assert_eq!((early.branch, early.next_row, state.rows_beyond, state.replayable), (1, 2, 4, false));
    assert!(!state.continues(&early) && !state.can_continue(&early, true));
}

#[test]
fn a_cursor_of_another_job_plan_or_layout_is_a_hard_error() {
    let place = Place::new();
    let ledger = place.with_job();
    ledger.create_job(&crate::job("k"), &crate::two_shards()).unwrap();
    let cursor = ledger.cursor(&id("j"), LAYOUT, None).unwrap();
    let other_plan = JobCursor { plan_digest: [9; 32], ..cursor.clone() };
    let of_other_ledger = JobCursor { job_nonce: nonce(9), ..cursor.clone() };
    for (what, error) in [
        ("job", ledger.check_cursor(&id("k"), LAYOUT, &cursor).unwrap_err()),
        ("plan", ledger.check_cursor(&id("j"), LAYOUT, &other_plan).unwrap_err()),
        (
            "ledger: its job has the nonce",
            ledger.check_cursor(&id("j"), LAYOUT, &of_other_ledger).unwrap_err(),
        ),
        ("layout", ledger.check_cursor(&id("j"), [6; 32], &cursor).unwrap_err()),
    ] {
        assert!(matches!(error, LedgerError::CursorMismatch { what: named, .. } if named == what), "{error}");
        assert!(!ServiceError::from(error).retry_safe());
    }
}

#[test]
fn a_ledger_that_was_rolled_back_is_found_by_the_cursor() {
    let place = Place::new();
    let ledger = place.with_job();
    bind(&ledger, 0, 0, 5);
    drop(ledger);
    let yesterday = std::fs::read(place.path()).unwrap();
    let ledger = place.open();
    bind(&ledger, 0, 5, 9);
    let cursor = ledger.cursor(&id("j"), LAYOUT, None).unwrap();
    drop(ledger);
    std::fs::write(place.path(), yesterday).unwrap();
    let ledger = place.open();
    let found = || ledger.check_cursor(&id("j"), LAYOUT, &cursor).unwrap_err();
    assert!(matches!(found(), LedgerError::Behind { .. }), "{}", found());
    // Also when it has caught up since, with other commitments.
    ledger.bind(&id("j"), 0, rows(5, 9), &[commitment("other"); 4]).unwrap();
    assert!(matches!(found(), LedgerError::Behind { .. }), "{}", found());
}
