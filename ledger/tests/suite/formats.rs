//! Ledgers that are not there, and ledgers of other formats.

use std::fs;

use ledger::{Ledger, LedgerError};
use proto::Nonce;
use redb::{Database, TableDefinition};

use crate::Place;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

#[test]
fn a_ledger_is_begun_once_and_never_in_silence() {
    let place = Place::new();
    let error = Ledger::open(&place.path()).err().unwrap();
    assert!(matches!(error, LedgerError::Missing { .. }), "{error}");
    let command = format!("`rustle ledger init --data-dir {}`", place.path().parent().unwrap().display());
    assert!(error.to_string().contains(&command), "{error}");
    assert!(!place.path().exists());
    let [first, second] = [[1; 32], [2; 32]].map(Nonce::from_bytes);
    Ledger::init(&place.path(), first).unwrap();
    let again = Ledger::init(&place.path(), second).unwrap_err();
    assert!(matches!(again, LedgerError::Begun { .. }), "{again}");
    assert_eq!(Ledger::open(&place.path()).unwrap().id().unwrap(), first);
}

#[test]
fn another_format_is_refused_by_name_and_left_alone() {
    for other in [0, 1, 2, 3, 4, 5, 6, 8] {
        let place = Place::new();
        drop(place.with_job());
        {
            let db = Database::open(place.path()).unwrap();
            let transaction = db.begin_write().unwrap();
            transaction.open_table(META).unwrap().insert("format", other).unwrap();
            transaction.commit().unwrap();
        }
        let before = fs::read(place.path()).unwrap();
        let error = Ledger::open(&place.path()).err().unwrap();
        let is_refused = matches!(error, LedgerError::Format { found, supported: 7, .. } if found == other);
        assert!(is_refused, "{error}");
        assert!(fs::read(place.path()).unwrap() == before);
    }
}

/// A job belongs to the ledger that it was created in: its chain under another ledger's id is none.
#[test]
fn a_ledger_with_another_id_is_damaged() {
    let place = Place::new();
    drop(place.with_job());
    {
        let db = Database::open(place.path()).unwrap();
        let transaction = db.begin_write().unwrap();
        let identity: TableDefinition<&str, [u8; 32]> = TableDefinition::new("identity");
        transaction.open_table(identity).unwrap().insert("ledger", [9; 32]).unwrap();
        transaction.commit().unwrap();
    }
    let error = Ledger::open(&place.path()).err().unwrap();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
}
