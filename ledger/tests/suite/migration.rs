//! Ledgers of other formats. `data/format-1.redb` was written by the last build of format 1: jobs a (running, with a
//! checkpoint), b (finished) and c (destroyed), rows 0..20 and 30..33 of each bound, shard 0 leased once.

use std::fs;

use ledger::{Event, JobState, Ledger, LedgerError};
use proto::{CommitmentKind, model::OpenBranch};
use redb::{Database, TableDefinition};

use crate::{Place, commitment, id, rows};

const OLD: &[u8] = include_bytes!("../data/format-1.redb");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const OLD_BINDINGS: TableDefinition<(&str, u64, u64), [u8; 32]> = TableDefinition::new("bindings");

fn with_old() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path().parent().unwrap()).unwrap();
    fs::write(place.path(), OLD).unwrap();
    place
}

#[test]
fn a_ledger_of_format_1_keeps_all_that_it_had() {
    let place = with_old();
    // Once migrated and once opened as it is then.
    for _ in 0..2 {
        let ledger = place.open();
        for (name, state) in [("a", JobState::Running), ("b", JobState::Finished), ("c", JobState::Destroyed)]
        {
            let record = ledger.job(&id(name)).unwrap().unwrap();
            assert_eq!((record.state, record.branch, record.lineage.to_string()), (state, 0, "0..=0".into()));
            let bound = ledger.bindings(&id(name), 0, 0..100).unwrap();
            let expected: Vec<u64> = (0..20).chain(30..33).collect();
            assert_eq!(bound.iter().map(|(row, _)| *row).collect::<Vec<_>>(), expected);
            assert_eq!(bound[3].1, commitment(&format!("{name}3")));
            assert!(bound.iter().all(|(_, c)| c.kind == CommitmentKind::Declared));
            assert_eq!(ledger.binding_summary(&id(name), 0).unwrap().next_row, 33);
            assert_eq!(ledger.shards(&id(name)).unwrap()[0].epoch, 1);
        }
        assert_eq!(ledger.checkpoints(&id("a")).unwrap()[0].id, 7);
        let first = ledger.entries(&id("b"), 0, 1, usize::MAX).unwrap().remove(0);
        assert!(matches!(serde_json::from_str(&first.event).unwrap(), Event::Created { .. }));
    }
    let ledger = place.open();
    assert_eq!(ledger.next_coordinator_epoch().unwrap(), 3);
    let rewind = OpenBranch { job: id("a"), from_row: 33, expected_branch: 0, parent: None };
    ledger.open_branch(&rewind).unwrap();
    ledger.bind(&id("a"), 1, rows(33, 34), &[commitment("new")]).unwrap();
}

#[test]
fn a_newer_format_is_refused_by_name_and_left_alone() {
    let place = Place::new();
    drop(place.with_job());
    {
        let db = Database::open(place.path()).unwrap();
        let transaction = db.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("format", 3).unwrap();
        transaction.commit().unwrap();
    }
    let before = fs::read(place.path()).unwrap();
    let error = Ledger::open(&place.path()).err().unwrap();
    assert!(matches!(error, LedgerError::Format { found: 3, supported: 2, .. }), "{error}");
    assert!(fs::read(place.path()).unwrap() == before);
}

#[test]
fn a_damaged_ledger_of_format_1_is_not_migrated() {
    let place = with_old();
    {
        let db = Database::open(place.path()).unwrap();
        let transaction = db.begin_write().unwrap();
        transaction.open_table(OLD_BINDINGS).unwrap().remove(("b", 0, 7)).unwrap();
        transaction.commit().unwrap();
    }
    let before = fs::read(place.path()).unwrap();
    let error = Ledger::open(&place.path()).err().unwrap();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
    assert!(fs::read(place.path()).unwrap() == before);
}
