//! A ledger whose charges are not what its chains say is refused.

use ledger::{DataSetRecord, Ledger, LedgerError, Reservation, SweepRecord};
use proto::{
    DataSetId, SweepId, TenantId,
    model::{NeighbouringRelation, PrivacyBudget, PrivacyUnit},
};
use redb::{Database, ReadableTable, TableDefinition};

use crate::{Place, job, two_shards};

const CHARGES: TableDefinition<&str, &[u8]> = TableDefinition::new("charges");
const DATA_SETS: TableDefinition<&str, &[u8]> = TableDefinition::new("data_sets");
const SWEEPS: TableDefinition<&str, &[u8]> = TableDefinition::new("sweeps");

fn charged(place: &Place) {
    let ledger = place.open();
    let data_set = DataSetId::new("mails").unwrap();
    let record = DataSetRecord {
        data_set: data_set.clone(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        budget: PrivacyBudget::new(2.0, 1e-6).unwrap(),
        shares: Default::default(),
        blocks: Default::default(),
        per_block: false,
        approvals: None,
    };
    ledger.create_data_set(&record).unwrap();
    let expected = Some(ledger.data_set(&data_set).unwrap().head);
    let event = "{\"rho\":0.5}".to_owned();
    let tenant = TenantId::new("ads").ok();
    let blocks = Default::default();
    let reservation = Reservation { data_set, event, expected, sweep: None, tenant, blocks };
    ledger.create_charged_job(&job("j"), &two_shards(), Some(&reservation)).unwrap();
    let data_set = reservation.data_set;
    let tenant = TenantId::new("search").unwrap();
    let share = PrivacyBudget::new(1.5, 1e-6).unwrap();
    let head = ledger.data_set(&data_set).unwrap().head;
    ledger.set_share(&data_set, &tenant, Some(share), head).unwrap();
    let sweep = SweepRecord {
        sweep: SweepId::new("s").unwrap(),
        data_set: data_set.clone(),
        run: "{\"rho\":0.5}".to_owned(),
        charge: "{\"rho\":0.7}".to_owned(),
        seed: [5; 32],
        runs: 77,
        started: 0,
    };
    ledger.create_sweep(&sweep, ledger.data_set(&data_set).unwrap().head).unwrap();
}

/// Replaces a text in every record of a table.
fn alter(place: &Place, table: TableDefinition<&'static str, &'static [u8]>, old: &str, new: &str) {
    let db = Database::open(place.path()).unwrap();
    let transaction = db.begin_write().unwrap();
    {
        let mut table = transaction.open_table(table).unwrap();
        let records = table.iter().unwrap().map(|entry| {
            let (key, value) = entry.unwrap();
            (key.value().to_owned(), String::from_utf8(value.value().to_vec()).unwrap())
        });
        for (key, value) in records.collect::<Vec<_>>() {
            assert!(value.contains(old), "{value}");
            table.insert(key.as_str(), value.replace(old, new).as_bytes()).unwrap();
        }
    }
    transaction.commit().unwrap();
}

#[test]
fn an_altered_charge_or_budget_is_damage() {
    for (table, old, new) in [
        (CHARGES, "0.5", "0.4"),
        (CHARGES, "\"open\"", "\"given-back\""),
        (CHARGES, "mails", "males"),
        (SWEEPS, "77", "78"),
        (SWEEPS, "[5,", "[6,"),
        (SWEEPS, "0.7", "0.6"),
        (SWEEPS, "\"started\":0", "\"started\":1"),
        (DATA_SETS, "2.0", "9.0"),
        (DATA_SETS, "user", "example"),
        (DATA_SETS, "1.5", "1.9"),
        (DATA_SETS, "search", "sesrch"),
        (CHARGES, "\"ads\"", "\"abs\""),
    ] {
        let place = Place::new();
        charged(&place);
        assert!(Ledger::open(&place.path()).is_ok());
        alter(&place, table, old, new);
        let error = Ledger::open(&place.path()).err().unwrap();
        assert!(matches!(error, LedgerError::Damaged { .. }), "{old} as {new}: {error}");
    }
}

#[test]
fn a_charge_that_is_gone_is_damage() {
    let place = Place::new();
    charged(&place);
    {
        let db = Database::open(place.path()).unwrap();
        let transaction = db.begin_write().unwrap();
        transaction.open_table(CHARGES).unwrap().remove("j").unwrap();
        transaction.commit().unwrap();
    }
    let error = Ledger::open(&place.path()).err().unwrap();
    assert!(matches!(error, LedgerError::Damaged { .. }) && error.to_string().contains("charges"), "{error}");
}
