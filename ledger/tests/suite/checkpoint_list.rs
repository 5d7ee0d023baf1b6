//! The list of checkpoints in the ledger.

use ledger::LedgerError;
use proto::{CheckpointRecord, model::CheckpointPiece, piece_object};

use crate::{Place, id, range};

fn record(number: u64) -> CheckpointRecord {
    let piece = |start, end| {
        let range = range(start, end);
        CheckpointPiece { object: piece_object(&id("j"), number, range), range, next_row: 5, sha256: [3; 32] }
    };
    CheckpointRecord {
        job: id("j"),
        id: number,
        branch: 0,
        plan_digest: [1; 32],
        next_row: 5,
        bytes: 99,
        pieces: vec![piece(1024, 2000), piece(0, 1024)],
    }
}

#[test]
fn checkpoints_are_listed_oldest_first_until_they_are_removed() {
    let place = Place::new();
    let ledger = place.with_job();
    for number in [300, 2, 10] {
        ledger.add_checkpoint(&record(number)).unwrap();
    }
    ledger.add_checkpoint(&record(2)).unwrap();
    drop(ledger);
    let ledger = place.open();
    assert_eq!(ledger.checkpoints(&id("j")).unwrap(), vec![record(2), record(10), record(300)]);
    ledger.remove_checkpoint(&id("j"), 10).unwrap();
    ledger.remove_checkpoint(&id("j"), 10).unwrap();
    assert_eq!(ledger.checkpoints(&id("j")).unwrap(), vec![record(2), record(300)]);
}

#[test]
fn a_checkpoint_that_is_not_this_jobs_or_not_whole_is_refused() {
    let place = Place::new();
    let ledger = place.with_job();
    ledger.add_checkpoint(&record(1)).unwrap();
    let changed = CheckpointRecord { next_row: 6, ..record(1) };
    assert!(matches!(ledger.add_checkpoint(&changed), Err(LedgerError::AlreadyExists { .. })));
    let mut half = record(2);
    half.pieces.pop();
    let mut elsewhere = record(2);
    elsewhere.pieces[0].object = "j/1/1024-2000.shard".to_owned();
    let other_plan = CheckpointRecord { plan_digest: [9; 32], ..record(2) };
    for bad in [half, elsewhere, other_plan] {
        assert!(matches!(ledger.add_checkpoint(&bad), Err(LedgerError::Invalid { .. })), "{bad:?}");
    }
    assert!(matches!(ledger.checkpoints(&id("k")), Err(LedgerError::NotFound { .. })));
}
