//! What may be bound, and what a binding refuses for ever.

use std::thread;

use ledger::{BindOutcome, JobState, LedgerError};
use proto::{Commitment, ServiceError};

use crate::{ITERATIONS, Place, commitment, id, rows};

fn many(text: &str, count: usize) -> Vec<Commitment> {
    (0..count).map(|i| commitment(&format!("{text}{i}"))).collect()
}

#[test]
fn a_row_is_bound_once_and_the_same_again_is_fine() {
    let place = Place::new();
    let ledger = place.with_job();
    let bind = |start, end, c: &[Commitment]| ledger.bind(&id("j"), 0, rows(start, end), c);
    assert_eq!(bind(0, 3, &many("a", 3)).unwrap(), BindOutcome { newly: 3 });
    assert_eq!(bind(0, 3, &many("a", 3)).unwrap(), BindOutcome { newly: 0 });
    assert_eq!(
        bind(1, 4, &[many("a", 3)[1], many("a", 3)[2], commitment("new")]).unwrap(),
        BindOutcome { newly: 1 }
    );

    let refused = bind(2, 3, &[commitment("other")]).unwrap_err();
    assert!(matches!(refused, LedgerError::AlreadyBound { row: 2, branch: 0, .. }), "{refused}");
    assert!(!ServiceError::from(refused).retry_safe());
    let summary = ledger.binding_summary(&id("j"), 0).unwrap();
    assert_eq!((summary.rows_bound, summary.next_row, summary.refused), (4, 4, 1));
}

#[test]
fn all_rows_of_a_call_are_bound_or_none() {
    let place = Place::new();
    let ledger = place.with_job();
    ledger.bind(&id("j"), 0, rows(5, 6), &[commitment("five")]).unwrap();
    let before = ledger.bindings(&id("j"), 0, 0..ITERATIONS).unwrap();
    for (start, end) in [(0, 8), (5, 8), (ITERATIONS - 1, ITERATIONS + 1)] {
        ledger.bind(&id("j"), 0, rows(start, end), &many("x", (end - start) as usize)).unwrap_err();
        assert_eq!(ledger.bindings(&id("j"), 0, 0..ITERATIONS).unwrap(), before, "after {start}..{end}");
    }
    assert_eq!(ledger.binding_summary(&id("j"), 0).unwrap().rows_bound, 1);
}

#[test]
fn what_does_not_fit_the_job_is_refused_by_name() {
    let place = Place::new();
    let ledger = place.with_job();
    let bind = |job, branch, start, end, count| {
        ledger.bind(&id(job), branch, rows(start, end), &many("c", count)).unwrap_err()
    };
    assert!(matches!(bind("unknown", 0, 0, 1, 1), LedgerError::NotFound { what: "job", .. }));
    assert!(matches!(bind("j", 1, 0, 1, 1), LedgerError::Invalid { field: "branch", .. }));
    assert!(matches!(bind("j", 0, 0, 2, 1), LedgerError::Invalid { field: "commitments", .. }));
    let beyond = |start, end, count| match bind("j", 0, start, end, count) {
        LedgerError::RowBeyondIterations { row, iterations: ITERATIONS } => row,
        other => panic!("{other}"),
    };
    assert_eq!(beyond(ITERATIONS - 1, ITERATIONS + 1, 2), ITERATIONS);
    assert_eq!(beyond(ITERATIONS + 7, ITERATIONS + 8, 1), ITERATIONS + 7);
    assert_eq!(beyond(u64::MAX - 1, u64::MAX, 1), u64::MAX - 1);
}

#[test]
fn a_finished_job_keeps_its_rows_fetchable_and_a_destroyed_one_does_not() {
    let place = Place::new();
    let ledger = place.with_job();
    let bind = |row, text| ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment(text)]);
    bind(0, "a").unwrap();
    ledger.set_job_state(&id("j"), JobState::Finished).unwrap();
    assert_eq!(bind(0, "a").unwrap(), BindOutcome { newly: 0 });
    assert!(matches!(bind(0, "b"), Err(LedgerError::AlreadyBound { .. })));
    assert!(matches!(bind(1, "a"), Err(LedgerError::JobState { .. })));
    ledger.set_job_state(&id("j"), JobState::Destroyed).unwrap();
    assert!(matches!(bind(0, "a"), Err(LedgerError::JobState { .. })));
}

#[test]
fn of_many_threads_with_other_commitments_one_wins_each_row() {
    let place = Place::new();
    let ledger = place.with_job();
    let wins: u64 = thread::scope(|scope| {
        let racers = (0..4).map(|racer| {
            let ledger = ledger.clone();
            scope.spawn(move || {
                let text = commitment(&format!("racer {racer}"));
                let bind = |row| ledger.bind(&id("j"), 0, rows(row, row + 1), &[text]);
                (0..20).map(|row| bind(row).map_or(0, |bound| bound.newly)).sum::<u64>()
            })
        });
        let racers: Vec<_> = racers.collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(wins, 20);
    let summary = ledger.binding_summary(&id("j"), 0).unwrap();
    assert_eq!((summary.rows_bound, summary.refused), (20, 60));
}
