//! Jobs of a data set whose ledger is adopted: what the other copy may have released is charged, for good, and said.
#![allow(clippy::unwrap_used)]

mod data_set;
mod example;

use std::path::Path;

use accounting::gaussian;
use data_set::{DELTA, account};
use example::{NEW_NONCE, NONCE, PLAN};
use ledger::{AnchorPlace, ChargeState, JobState, Ledger, LedgerError};
use plan::Plan;
use proto::model::OpenBranch;
use proto::{Commitment, JobId, Nonce, RowRange};
use release::adoption::adopt;
use release::budget::{Odometer, create_job, message_of, open_adopted_branch, planned_event};
use release::{branches::rewind, job::define};
use serde_json::{Value, json};

fn job(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

/// ε of so many runs, or stretches of one, in which one unit takes part once, of σ = 1.
fn of(runs: u64) -> f64 {
    gaussian::epsilon(DELTA, (runs as f64).sqrt()).unwrap()
}

fn bind(ledger: &Ledger, branch: u64, rows: std::ops::Range<u64>) {
    let to: Vec<_> = rows.clone().map(|row| Commitment::of_text(&format!("{branch} {row}"))).collect();
    ledger.bind(&job("half"), branch, RowRange::new(rows.start, rows.end).unwrap(), &to).unwrap();
}

/// A ledger with two jobs that its budget just holds: one of three rows, and one of none.
fn begun(path: &Path) -> Ledger {
    let ledger = data_set::begun(path, &account(), of(2) + 0.01, false);
    let plan = Plan::from_toml_str(PLAN).unwrap();
    let event = planned_event(&plan, &account()).unwrap();
    for name in ["half", "none"] {
        let defined = define(job(name), &plan, PLAN.to_owned(), 1_000, [7; 32], 1, NONCE).unwrap();
        create_job(&ledger, &defined, &account(), &event).unwrap();
    }
    bind(&ledger, 0, 0..3);
    ledger
}

/// Adopts the ledger under nonces of the numbers after `drawn`.
fn adopted(ledger: &Ledger, path: &Path, mut drawn: u8) -> Ledger {
    let nonce = || {
        drawn += 1;
        Ok::<_, LedgerError>(Nonce::from_bytes([drawn; 32]))
    };
    adopt(ledger, &AnchorPlace::of_ledger(path), nonce).unwrap().0
}

fn total(ledger: &Ledger) -> f64 {
    let Odometer { spent, reserved, .. } =
        Odometer::of(&ledger.data_set(&account().data_set).unwrap()).unwrap();
    spent + reserved
}

/// The states of all charges, as `rustle budget show` prints them.
fn states(ledger: &Ledger) -> Vec<String> {
    let shown = message_of(&ledger.data_set(&account().data_set).unwrap()).unwrap();
    shown.charges.into_iter().map(|charge| charge.state).collect()
}

#[track_caller]
fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected, "{value}, not {expected}");
}

#[test]
fn unbound_rows_are_charged_as_released_beyond_the_budget_too_and_nothing_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    let copy = begun(&path);
    assert_near(total(&copy), of(2));
    assert_eq!(states(&copy), ["spent", "reserved"]);
    assert_eq!(copy.report(&job("half")).unwrap()["ledger_doubt"], Value::Null);
    let ledger = adopted(&copy, &path, 100);
    // Of each job the whole run, and the rows that the other copy may have released.
    assert_near(total(&ledger), of(4));
    assert_eq!(states(&copy), ["adopted", "adopted"]);
    ledger.set_job_state(&job("none"), JobState::Destroyed).unwrap();
    drop((copy, ledger));

    let ledger = Ledger::open(&path).unwrap();
    assert_near(total(&ledger), of(4));
    assert_eq!(ledger.charge(&job("none")).unwrap().unwrap().state, ChargeState::Final);
    let report = ledger.report(&job("half")).unwrap();
    let doubt = report["ledger_doubt"].as_str().unwrap();
    assert!(doubt.contains("adopted at row 3 of branch 0") && doubt.contains("charged nowhere"), "{doubt}");
    assert_eq!(report["released"]["branches"][0]["released"], json!([[0, 10]]));
    assert_eq!(report["released"]["branches"][1]["released"], json!([]));
    // What is bound is what it was.
    assert_eq!(ledger.released(&job("half")).unwrap()[0].released, [RowRange { start: 0, end: 3 }]);
}

/// Rows of two branches were unbound at the second adoption; those of the first one stay charged.
#[test]
fn adoptions_and_rewinds_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    let ledger = adopted(&begun(&path), &path, 100);
    bind(&ledger, 1, 3..5);
    rewind(&ledger, &job("half"), 4, 1, NEW_NONCE).unwrap_err(); // The budget is spent.
    let ledger = adopted(&ledger, &path, 200);
    let charged: Vec<_> = ledger.charged(&job("half")).unwrap().into_iter().map(|of| of.released).collect();
    let rows = |start, end| vec![RowRange { start, end }];
    assert_eq!(charged, [rows(0, 10), rows(3, 10), Vec::new()]);
    assert_near(total(&ledger), of(6));
    let doubt = ledger.doubt(&job("half")).unwrap().unwrap();
    assert!(doubt.contains("row 3 of branch 0") && doubt.contains("row 5 of branch 1"), "{doubt}");
}

#[test]
fn a_job_that_is_created_after_an_adoption_is_in_no_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    let ledger = adopted(&begun(&path), &path, 100);
    let plan = Plan::from_toml_str(PLAN).unwrap();
    let defined = define(job("later"), &plan, PLAN.to_owned(), 1_000, [7; 32], 1, NEW_NONCE).unwrap();
    ledger.create_job(&defined.record, &defined.shards).unwrap();
    assert_eq!(ledger.doubt(&job("later")).unwrap(), None);
    assert!(ledger.doubt(&job("half")).unwrap().is_some());
}

/// A process that ends within an adoption leaves a branch behind. What the other copy may have released on the branch before
/// it is charged all the same.
#[test]
fn an_interrupted_adoption_loses_no_charge() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    let copy = begun(&path);
    let request = OpenBranch { job: job("half"), from_row: 3, expected_branch: 0, parent: None };
    open_adopted_branch(&copy.for_adoption(), &request, Nonce::from_bytes([90; 32])).unwrap();
    let ledger = adopted(&copy, &path, 100);
    let charged: Vec<_> = ledger.charged(&job("half")).unwrap().into_iter().map(|of| of.released).collect();
    let rows = |start, end| vec![RowRange { start, end }];
    assert_eq!(charged, [rows(0, 10), rows(3, 10), Vec::new()]);
    // The job of no row has two stretches, the other one three.
    assert_near(total(&ledger), of(5));
}
