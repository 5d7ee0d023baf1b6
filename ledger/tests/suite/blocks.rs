//! Blocks of data sets: apart from each other, never changed, and charged as the chain says.

use std::collections::BTreeSet;

use ledger::{BlockRecord, Created, DataSetRecord, Head, Ledger, LedgerError, Reservation};
use proto::{
    BlockId, DataSetId, Day,
    model::{NeighbouringRelation, PrivacyBudget, PrivacyUnit},
};
use redb::{Database, ReadableTable, TableDefinition};

use crate::{Place, id, job, two_shards};

const CHARGES: TableDefinition<&str, &[u8]> = TableDefinition::new("charges");

fn name() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

fn block(name: &str) -> BlockId {
    BlockId::new(name).unwrap()
}

fn days(from: &str, until: &str) -> BlockRecord {
    let day = |text: &str| Day::new(text).unwrap();
    BlockRecord { from: day(from), until: day(until), budget: PrivacyBudget::new(0.1 + 0.2, 1e-6).unwrap() }
}

fn head(ledger: &Ledger) -> Head {
    ledger.data_set(&name()).unwrap().head
}

fn with_blocks(place: &Place) -> Ledger {
    let ledger = place.open();
    let record = DataSetRecord {
        data_set: name(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        budget: PrivacyBudget::new(1.0, 1e-6).unwrap(),
        shares: Default::default(),
        blocks: Default::default(),
        per_block: true,
        approvals: None,
    };
    ledger.create_data_set(&record).unwrap();
    let other = ledger.create_data_set(&DataSetRecord { per_block: false, ..record }).unwrap_err();
    assert!(other.to_string().contains("per_block is true, requested false"), "{other}");
    for (name_of, from, until) in [("b", "2026-02-01", "2026-03-01"), ("a", "2026-01-01", "2026-02-01")] {
        ledger.add_block(&name(), &block(name_of), &days(from, until), head(&ledger)).unwrap();
    }
    ledger
}

fn reservation(blocks: &[&str], expected: Head) -> Reservation {
    Reservation {
        data_set: name(),
        event: "{}".to_owned(),
        expected: Some(expected),
        sweep: None,
        tenant: None,
        blocks: blocks.iter().copied().map(block).collect::<BTreeSet<_>>(),
    }
}

#[test]
fn blocks_are_apart_and_stay() {
    let place = Place::new();
    let ledger = with_blocks(&place);
    let add = |name_of: &str, from: &str, until: &str| {
        ledger.add_block(&name(), &block(name_of), &days(from, until), head(&ledger))
    };
    assert_eq!(add("a", "2026-01-01", "2026-02-01").unwrap(), Created::Existing);
    for (from, until) in [
        ("2026-01-31", "2026-02-01"),
        ("2025-01-01", "2027-01-01"),
        ("2025-12-31", "2026-01-02"),
        ("2026-01-10", "2026-02-10"),
        ("2026-04-02", "2026-04-02"),
        ("2026-04-02", "2026-04-01"),
    ] {
        let refused = add("c", from, until).unwrap_err();
        assert!(matches!(refused, LedgerError::Invalid { .. }), "{refused}");
    }
    let other = add("a", "2026-01-01", "2026-01-31").unwrap_err();
    assert!(matches!(other, LedgerError::AlreadyExists { what: "block", .. }), "{other}");
    let late = ledger.add_block(&name(), &block("c"), &days("2026-03-01", "2026-03-02"), Head::empty("x"));
    assert!(matches!(late, Err(LedgerError::DataSetChanged { .. })), "{late:?}");
    let before = ledger.data_set(&name()).unwrap();
    assert_eq!((before.record.blocks.len(), before.head.entries), (2, 3));
    drop(ledger);
    assert_eq!(place.open().data_set(&name()).unwrap(), before);
}

#[test]
fn a_charge_has_blocks_that_are_there() {
    let place = Place::new();
    let ledger = with_blocks(&place);
    for (blocks, words) in [(&[][..], "account.blocks is missing"), (&["a", "c"][..], "no block named c")] {
        let asked = reservation(blocks, head(&ledger));
        let refused = ledger.create_charged_job(&job("j"), &two_shards(), Some(&asked)).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
    assert!(ledger.jobs().unwrap().is_empty());
    let asked = reservation(&["b", "a"], head(&ledger));
    ledger.create_charged_job(&job("j"), &two_shards(), Some(&asked)).unwrap();
    let fewer = reservation(&["a"], head(&ledger));
    let other = ledger.create_charged_job(&job("j"), &two_shards(), Some(&fewer)).unwrap_err();
    assert!(other.to_string().contains("blocks are a, b, requested a"), "{other}");
    drop(ledger);
    assert_eq!(place.open().charge(&id("j")).unwrap().unwrap().blocks, asked.blocks);

    // One block fewer is damage.
    let db = Database::open(place.path()).unwrap();
    let transaction = db.begin_write().unwrap();
    {
        let mut charges = transaction.open_table(CHARGES).unwrap();
        let stored =
            charges.get("j").unwrap().map(|value| String::from_utf8(value.value().to_vec()).unwrap());
        let altered = stored.unwrap().replace("[\"a\",\"b\"]", "[\"a\"]");
        assert!(altered.contains("\"blocks\":[\"a\"]"), "{altered}");
        charges.insert("j", altered.as_bytes()).unwrap();
    }
    transaction.commit().unwrap();
    drop(db);
    let damaged = Ledger::open(&place.path()).err().unwrap();
    assert!(matches!(damaged, LedgerError::Damaged { .. }), "{damaged}");
}
