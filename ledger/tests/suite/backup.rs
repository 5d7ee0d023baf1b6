//! Copies of a ledger that is being written are whole ledgers, each as of some moment.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ledger::{Ledger, LedgerError};

use crate::{ITERATIONS, Place, commitment, job, rows};

#[test]
fn a_copy_of_a_ledger_in_use_is_a_ledger_as_of_some_moment() {
    let place = Place::new();
    let ledger = place.with_job();
    let copies = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for row in 0..ITERATIONS {
                let of_row = rows(row, row + 1);
                ledger.bind(&job("j").job, 0, of_row, &[commitment(&row.to_string())]).unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
        let mut before = 0;
        let mut number = 0;
        loop {
            let was_over = is_over.load(Ordering::Acquire);
            let file = copies.path().join(format!("{number}.redb"));
            fs::write(&file, Ledger::backup(&place.path()).unwrap()).unwrap();
            let bound = Ledger::open(&file).unwrap().binding_summary(&job("j").job, 0).unwrap().rows_bound;
            assert!(bound >= before, "{bound} rows after {before}");
            before = bound;
            number += 1;
            if was_over {
                break;
            }
        }
        assert_eq!(before, ITERATIONS, "all that was bound before the last copy began");
    });
}

#[test]
fn what_is_no_whole_ledger_is_refused_and_left_as_it_is() {
    let place = Place::new();
    assert!(matches!(Ledger::backup(&place.path()), Err(LedgerError::Missing { .. })));
    drop(place.with_job());
    let mut bytes = fs::read(place.path()).unwrap();
    let half = bytes.len() / 2;
    bytes.truncate(half);
    fs::write(place.path(), &bytes).unwrap();
    assert!(matches!(Ledger::backup(&place.path()), Err(LedgerError::Damaged { .. })));
    assert_eq!(fs::read(place.path()).unwrap(), bytes);
}
