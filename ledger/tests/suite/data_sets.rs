//! Data sets: a decision is applied to the state that it was made on, and to no other.

use std::sync::Barrier;

use ledger::{
    ChargeState, Created, DataSetRecord, Head, JobState, Ledger, LedgerError, Recharge, Reservation, Result,
    Stamp,
};
use proto::{
    DataSetId, TenantId,
    model::{NeighbouringRelation, OpenBranch, PrivacyBudget, PrivacyUnit},
};

use crate::{Place, commitment, id, job, nonce, rows, two_shards};

fn name() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

fn mails() -> DataSetRecord {
    DataSetRecord {
        data_set: name(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        // A number whose last digit not every reader of JSON gets right.
        budget: PrivacyBudget::new(0.1 + 0.2, 1e-6).unwrap(),
        shares: Default::default(),
        blocks: Default::default(),
        per_block: false,
        approvals: None,
    }
}

fn head(ledger: &Ledger) -> Head {
    ledger.data_set(&name()).unwrap().head
}

fn reservation(expected: Head) -> Reservation {
    Reservation {
        data_set: name(),
        event: "{\"kind\":\"planned\"}".to_owned(),
        expected: Some(expected),
        sweep: None,
        tenant: None,
        blocks: Default::default(),
    }
}

fn create(ledger: &Ledger, name: &str, expected: Head) -> Result<Created> {
    ledger.create_charged_job(&job(name), &two_shards(), Some(&reservation(expected)))
}

fn with_data_set(place: &Place) -> Ledger {
    let ledger = place.open();
    ledger.create_data_set(&mails()).unwrap();
    ledger
}

fn back_to(from_row: u64) -> OpenBranch {
    OpenBranch { job: id("j"), from_row, expected_branch: 0, parent: None }
}

#[test]
fn a_data_set_is_recorded_once_and_stays() {
    let place = Place::new();
    let ledger = with_data_set(&place);
    assert_eq!(ledger.create_data_set(&mails()).unwrap(), Created::Existing);
    for other in [
        DataSetRecord { unit: PrivacyUnit::Example, ..mails() },
        DataSetRecord { neighbouring: NeighbouringRelation::Replace, ..mails() },
        DataSetRecord { budget: PrivacyBudget::new(0.3, 1e-6).unwrap(), ..mails() },
    ] {
        let refused = ledger.create_data_set(&other).unwrap_err();
        assert!(matches!(refused, LedgerError::AlreadyExists { what: "data set", .. }), "{refused}");
    }
    create(&ledger, "j", head(&ledger)).unwrap();
    let tenant = TenantId::new("ads").unwrap();
    let share = PrivacyBudget::new(0.1, 1e-7).unwrap();
    let before = head(&ledger);
    ledger.set_share(&name(), &tenant, Some(share), before).unwrap();
    let late = ledger.set_share(&name(), &tenant, None, before).unwrap_err();
    assert!(matches!(late, LedgerError::DataSetChanged { .. }), "{late}");
    let none = ledger.set_share(&name(), &TenantId::new("search").unwrap(), None, head(&ledger)).unwrap_err();
    assert!(matches!(none, LedgerError::NotFound { .. }), "{none}");
    ledger.grant_budget(&name(), PrivacyBudget::new(1.0 / 3.0, 1e-7).unwrap(), head(&ledger)).unwrap();
    let before = ledger.data_set(&name()).unwrap();
    drop(ledger);
    let ledger = place.open();
    assert_eq!(ledger.data_set(&name()).unwrap(), before);
    assert_eq!(ledger.data_sets().unwrap(), [name()]);
    let kinds: Vec<String> = ledger
        .data_set_entries(&name(), 0, 10, 1 << 20)
        .unwrap()
        .into_iter()
        .map(|entry| Stamp::split(&entry.event).unwrap().1.split('"').nth(3).unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["data_set_created", "reserved", "share_set", "budget_granted"]);
    assert_eq!(before.head.entries, 4);
}

/// Of all that decided on one state, one is admitted: the others must decide again.
#[test]
fn creators_that_decided_on_one_state_are_not_both_admitted() {
    const CREATORS: usize = 8;
    let place = Place::new();
    let ledger = with_data_set(&place);
    let decided_on = head(&ledger);
    let start = Barrier::new(CREATORS);
    let ledger = &ledger;
    let start = &start;
    let outcomes: Vec<Result<Created>> = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                scope.spawn(move || {
                    start.wait();
                    create(ledger, &format!("j{creator}"), decided_on)
                })
            })
            .collect();
        creators.into_iter().map(|creator| creator.join().unwrap()).collect()
    });
    let admitted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let is_late = |outcome: &Result<Created>| matches!(outcome, Err(LedgerError::DataSetChanged { .. }));
    assert_eq!((admitted, outcomes.iter().filter(|outcome| is_late(outcome)).count()), (1, CREATORS - 1));
    assert_eq!(ledger.data_set(&name()).unwrap().charges.len(), 1);
    assert_eq!(ledger.jobs().unwrap().len(), 1, "a job is there without its charge");
}

#[test]
fn a_job_that_exists_reserves_nothing_more_and_keeps_its_account() {
    let place = Place::new();
    let ledger = with_data_set(&place);
    let before = head(&ledger);
    create(&ledger, "j", before).unwrap();
    // Also where the state that the first request was decided on is long gone.
    assert_eq!(create(&ledger, "j", before).unwrap(), Created::Existing);
    let of_other_event = Reservation { event: "{}".to_owned(), ..reservation(before) };
    let missing = DataSetId::new("letters").unwrap();
    let of_other_set = Reservation { data_set: missing.clone(), ..reservation(before) };
    for other in [None, Some(&of_other_event), Some(&of_other_set)] {
        let refused = ledger.create_charged_job(&job("j"), &two_shards(), other).unwrap_err();
        assert!(matches!(refused, LedgerError::AlreadyExists { what: "job", .. }), "{refused}");
    }
    let unknown = ledger.create_charged_job(&job("k"), &two_shards(), Some(&of_other_set)).unwrap_err();
    assert!(matches!(unknown, LedgerError::NotFound { what: "data set", .. }), "{unknown}");
    assert!(ledger.data_set(&missing).is_err() && ledger.job(&id("k")).unwrap().is_none());
    assert_eq!(head(&ledger).entries, 2);
}

#[test]
fn a_branch_is_paid_for_or_not_opened() {
    let place = Place::new();
    let ledger = with_data_set(&place);
    create(&ledger, "j", head(&ledger)).unwrap();
    ledger.bind(&id("j"), 0, rows(0, 3), &[0, 1, 2].map(|row| commitment(&row.to_string()))).unwrap();
    let unpaid = ledger.open_branch(&back_to(1), nonce(1)).unwrap_err();
    assert!(
        matches!(unpaid, LedgerError::JobState { .. }) && unpaid.to_string().contains("mails"),
        "{unpaid}"
    );

    let paid = Recharge { event: "{\"kind\":\"more\"}".to_owned(), expected: head(&ledger), rows_bound: 3 };
    // A row that is bound after the charge was computed is one more that the job leaves.
    ledger.bind(&id("j"), 0, rows(3, 4), &[commitment("3")]).unwrap();
    let late = ledger.open_charged_branch(&back_to(1), nonce(1), Some(&paid)).unwrap_err();
    assert!(matches!(late, LedgerError::DataSetChanged { .. }), "{late}");
    let paid = Recharge { rows_bound: 4, ..paid };
    create(&ledger, "k", head(&ledger)).unwrap();
    let stale = Recharge { expected: Head::empty("x"), ..paid.clone() };
    assert!(ledger.open_charged_branch(&back_to(1), nonce(1), Some(&stale)).is_err());
    assert_eq!(ledger.job(&id("j")).unwrap().unwrap().branch, 0);

    let paid = Recharge { expected: head(&ledger), ..paid };
    assert!(ledger.open_charged_branch(&back_to(1), nonce(1), Some(&paid)).unwrap().newly);
    assert_eq!(ledger.charge(&id("j")).unwrap().unwrap().event, paid.event);
    // The same request again finds the branch, whatever it says about the charge.
    assert!(!ledger.open_branch(&back_to(1), nonce(2)).unwrap().newly);
    drop(ledger);
    assert_eq!(place.open().charge(&id("j")).unwrap().unwrap().event, paid.event);
}

#[test]
fn a_charge_is_given_back_where_nothing_was_bound_and_stays_elsewhere() {
    let place = Place::new();
    let ledger = with_data_set(&place);
    for name in ["bound", "empty", "stale", "never"] {
        create(&ledger, name, head(&ledger)).unwrap();
    }
    ledger.bind(&id("bound"), 0, rows(0, 1), &[commitment("0")]).unwrap();
    ledger.set_job_state(&id("bound"), JobState::Finished).unwrap();
    ledger.set_job_state(&id("empty"), JobState::Finished).unwrap();
    ledger.set_job_state(&id("empty"), JobState::Destroyed).unwrap();
    // Rows may have left that this ledger does not know.
    ledger.end_job(&id("stale"), JobState::Destroyed, true).unwrap();
    drop(ledger);
    let ledger = place.open();
    let state = |name: &str| ledger.charge(&id(name)).unwrap().unwrap().state;
    assert_eq!(
        ["bound", "empty", "stale", "never"].map(state),
        [ChargeState::Final, ChargeState::GivenBack, ChargeState::Final, ChargeState::Open,]
    );
    let rows_bound: Vec<u64> =
        ledger.data_set(&name()).unwrap().charges.iter().map(|charged| charged.rows_bound).collect();
    assert_eq!(rows_bound, [1, 0, 0, 0]);
}
