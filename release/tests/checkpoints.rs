//! Numbers of checkpoints, which of them are usable, and which stay.
#![allow(clippy::unwrap_used)]

mod example;

use example::{NEW_NONCE, NONCE, PLAN};
use ledger::JobRecord;
use plan::Plan;
use proto::model::CheckpointPiece;
use proto::{CheckpointRecord, CoordinateRange, JobId, Lineage};
use release::checkpoints::{CheckpointIds, expired, is_usable};
use release::job::define;

fn record() -> JobRecord {
    let plan = Plan::from_toml_str(PLAN).unwrap();
    let job = JobId::new("digits").unwrap();
    define(job, &plan, PLAN.to_owned(), 1_000, [7; 32], 2, NONCE).unwrap().record
}

#[test]
fn checkpoint_numbers_rise_and_are_never_used_twice() {
    let first = CheckpointIds::new(3);
    let numbers = [first.next(), first.next()];
    assert_eq!(numbers, [(3 << 24) + 1, (3 << 24) + 2]);
    let later = CheckpointIds::new(4);
    assert!(later.next() > numbers[1] && first.is_of_later_epoch((4 << 24) + 1));
    assert!(!later.is_of_later_epoch(numbers[0]) && !later.is_of_later_epoch((4 << 24) + 7));
}

#[test]
fn a_checkpoint_of_another_plan_or_of_rows_that_were_left_is_not_usable() {
    let record = record();
    let piece = CheckpointPiece {
        object: "digits/1/0-1000.shard".to_owned(),
        range: CoordinateRange::new(0, 1_000).unwrap(),
        next_row: 4,
        sha256: [1; 32],
    };
    let checkpoint = release::checkpoints::record(&record, 1, 10, vec![piece]);
    assert_eq!(checkpoint.next_row, 4);
    assert!(is_usable(&checkpoint, &record));
    assert!(!is_usable(&CheckpointRecord { plan_digest: [0; 32], ..checkpoint.clone() }, &record));
    // The job rewound to row 2: rows 2 and 3 of the checkpoint are of a branch that was left.
    let lineage = Lineage::of_job(NONCE).rewound(2, 1, NEW_NONCE);
    let rewound = JobRecord { branch: 1, lineage, ..record.clone() };
    assert!(!is_usable(&checkpoint, &rewound));
}

#[test]
fn the_newest_checkpoints_stay() {
    let record = record();
    let checkpoints: Vec<_> =
        (1..=4).map(|id| release::checkpoints::record(&record, id, 0, vec![])).collect();
    let gone = |keep| expired(&checkpoints, keep).iter().map(|checkpoint| checkpoint.id).collect::<Vec<_>>();
    assert_eq!(gone(2), [1, 2]);
    assert_eq!(gone(1), [1, 2, 3]);
    assert!(gone(4).is_empty() && gone(100).is_empty());
}
