//! Budgets over a real ledger, against closed forms: k Gaussian jobs of μ compose to one of μ√k.
#![allow(clippy::unwrap_used)]

mod data_set;
mod identity_plan;

use std::sync::Barrier;

use accounting::{Account, Event, Neighbouring, gaussian};
use data_set::{DELTA, account};
use identity_plan::identity_plan;
use ledger::{JobState, Ledger, LedgerError};
use plan::Plan;
use proto::model::{BudgetedAccount, NeighbouringRelation, OpenBranch, PrivacyBudget, PrivacyUnit};
use proto::{BudgetShortfall, Commitment, DataSetId, JobId, Nonce, RowRange, ServiceError};
use release::budget::{Odometer, create_job, grant, open_branch, planned_event};
use release::job::{JobDefinition, define};
use tempfile::TempDir;

/// Independent noise, of which one unit takes part in one of ten rounds: μ is 1/σ.
fn plan_with(noise_multiplier: f64) -> Plan {
    identity_plan(noise_multiplier, 10, 1)
}

fn mails() -> DataSetId {
    DataSetId::new("mails").unwrap()
}

fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

struct Fixture {
    folder: TempDir,
    ledger: Ledger,
}

impl Fixture {
    /// A ledger with a data set of this budget.
    fn new(epsilon: f64) -> Self {
        Self::of(&account(), epsilon)
    }

    fn of(account: &BudgetedAccount, epsilon: f64) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.redb");
        let ledger = data_set::begun(&path, account, epsilon, false);
        Self { folder, ledger }
    }

    fn reopened(self) -> Self {
        let Self { folder, ledger } = self;
        drop(ledger);
        let ledger = Ledger::open(&folder.path().join("ledger.redb")).unwrap();
        Self { folder, ledger }
    }

    fn create(&self, name: &str, noise_multiplier: f64) -> Result<(), LedgerError> {
        self.create_under(name, noise_multiplier, &account())
    }

    fn create_under(&self, name: &str, sigma: f64, account: &BudgetedAccount) -> Result<(), LedgerError> {
        let job = definition(name, sigma);
        let plan = plan_with(sigma);
        create_job(&self.ledger, &job, account, &planned_event(&plan, account).unwrap()).map(drop)
    }

    fn bind(&self, name: &str, branch: u64, rows: std::ops::Range<u64>) {
        let rows = RowRange::new(rows.start, rows.end).unwrap();
        let to: Vec<_> = rows.as_range().map(|row| Commitment::of_text(&format!("{branch} {row}"))).collect();
        self.ledger.bind(&id(name), branch, rows, &to).unwrap();
    }

    fn rewind(&self, name: &str, from_row: u64, expected_branch: u64) -> Result<u64, LedgerError> {
        let request = OpenBranch { job: id(name), from_row, expected_branch, parent: None };
        let nonce = Nonce::from_bytes([40 + expected_branch as u8; 32]);
        open_branch(&self.ledger, &request, nonce).map(|opened| opened.job.branch)
    }

    fn odometer(&self) -> Odometer {
        Odometer::of(&self.ledger.data_set(&mails()).unwrap()).unwrap()
    }
}

fn definition(name: &str, sigma: f64) -> JobDefinition {
    let plan = plan_with(sigma);
    define(id(name), &plan, plan.to_toml_string().unwrap(), 1_000, [7; 32], 1, Nonce::from_bytes([9; 32]))
        .unwrap()
}

/// ε of k jobs of independent noise σ, of which one unit is in one round each.
fn of_jobs(k: u64, sigma: f64) -> f64 {
    gaussian::epsilon(DELTA, (k as f64).sqrt() / sigma).unwrap()
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-6 * expected.max(1e-3)
}

#[test]
fn jobs_are_admitted_as_long_as_their_composition_fits() {
    // ε of two jobs is 1.54, and the sum of their ε is 2.12: adding up would refuse the second.
    let sigma = 4.0;
    let budget = of_jobs(2, sigma) + 0.01;
    assert!(2.0 * of_jobs(1, sigma) > budget + 0.3);
    let fixture = Fixture::new(budget);
    fixture.create("a", sigma).unwrap();
    fixture.create("b", sigma).unwrap();
    let LedgerError::BudgetExceeded(shortfall) = fixture.create("c", sigma).unwrap_err() else {
        panic!("not refused for its budget")
    };
    let BudgetShortfall { spent, reserved, asked, total, fits, .. } = *shortfall;
    let read = |text: &str| text.parse::<f64>().unwrap();
    assert_eq!(read(&spent), 0.0);
    assert!(near(read(&reserved), of_jobs(2, sigma)), "{reserved}");
    assert!(
        near(read(&asked), of_jobs(1, sigma)) && near(read(&total), of_jobs(3, sigma)),
        "{asked} {total}"
    );
    assert!(fixture.ledger.job(&id("c")).unwrap().is_none());
    // What is said to fit does, and a little less does not.
    let fits = read(&fits);
    assert!(matches!(fixture.create("c", 0.98 * fits), Err(LedgerError::BudgetExceeded(_))));
    fixture.create("c", fits).unwrap();

    let fixture = fixture.reopened();
    let all = gaussian::epsilon(DELTA, (2.0 / (sigma * sigma) + 1.0 / (fits * fits)).sqrt()).unwrap();
    let Odometer { spent, reserved, left, adaptive } = fixture.odometer();
    assert!(spent == 0.0 && near(reserved, all) && left >= 0.0 && adaptive);
    assert!((spent + reserved + left - budget).abs() < 1e-12);
}

#[test]
fn of_creators_at_once_only_as_many_are_admitted_as_fit() {
    const CREATORS: usize = 6;
    let sigma = 4.0;
    let fixture = Fixture::new(of_jobs(2, sigma) + 0.01);
    let start = Barrier::new(CREATORS);
    let shared = &fixture;
    let start = &start;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                scope.spawn(move || {
                    start.wait();
                    shared.create(&format!("j{creator}"), sigma)
                })
            })
            .collect();
        creators.into_iter().map(|creator| creator.join().unwrap()).collect()
    });
    let admitted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let refused = |outcome: &&Result<(), LedgerError>| matches!(outcome, Err(LedgerError::BudgetExceeded(_)));
    assert_eq!((admitted, outcomes.iter().filter(refused).count()), (2, CREATORS - 2));
    assert_eq!(fixture.ledger.jobs().unwrap().len(), 2);
}

#[test]
fn a_job_that_bound_nothing_gives_its_charge_back_and_any_other_keeps_it() {
    let sigma = 4.0;
    let fixture = Fixture::new(of_jobs(2, sigma) + 0.01);
    fixture.create("a", sigma).unwrap();
    fixture.create("b", sigma).unwrap();
    fixture.bind("a", 0, 0..1);
    assert!(near(fixture.odometer().spent, of_jobs(1, sigma)));
    // One row of ten was released, and the whole plan stays charged for.
    fixture.ledger.set_job_state(&id("a"), JobState::Finished).unwrap();
    fixture.ledger.set_job_state(&id("b"), JobState::Destroyed).unwrap();
    let fixture = fixture.reopened();
    let odometer = fixture.odometer();
    assert!(near(odometer.spent, of_jobs(1, sigma)) && odometer.reserved == 0.0, "{odometer:?}");
    fixture.create("c", sigma).unwrap();
    assert!(fixture.create("d", sigma).is_err());
    // Again, and under another account.
    fixture.create("c", sigma).unwrap();
    let other = BudgetedAccount { unit: PrivacyUnit::Example, ..account() };
    assert!(fixture.create_under("e", 1e6, &other).is_err());
}

/// A rewind leaves rows behind, of which one has sensitivity 1: it costs as much as one more job.
#[test]
fn a_rewind_is_charged_before_its_branch_is_opened_or_refused() {
    let sigma = 4.0;
    let fixture = Fixture::new(of_jobs(2, sigma) + 0.01);
    fixture.create("a", sigma).unwrap();
    // Nothing is left behind, and nothing is charged.
    assert_eq!(fixture.rewind("a", 0, 0).unwrap(), 1);
    assert!(near(fixture.odometer().reserved, of_jobs(1, sigma)));
    fixture.bind("a", 1, 0..4);
    assert_eq!(fixture.rewind("a", 2, 1).unwrap(), 2);
    assert!(near(fixture.odometer().spent, of_jobs(2, sigma)), "{:?}", fixture.odometer());
    // The same request finds the branch and is charged for once.
    assert_eq!(fixture.rewind("a", 2, 1).unwrap(), 2);
    fixture.bind("a", 2, 2..5);
    let before = fixture.ledger.data_set(&mails()).unwrap();
    let refused = fixture.rewind("a", 3, 2).unwrap_err();
    assert!(matches!(refused, LedgerError::BudgetExceeded(_)), "{refused}");
    let error = ServiceError::from(refused);
    assert_eq!((error.kind(), error.retry_safe()), ("budget_exceeded", false));
    let fixture = fixture.reopened();
    assert_eq!(fixture.ledger.data_set(&mails()).unwrap(), before);
    assert_eq!(fixture.ledger.job(&id("a")).unwrap().unwrap().branch, 2);
    // The job continues where it stands, and another budget pays for the rewind.
    fixture.bind("a", 2, 5..6);
    grant(&fixture.ledger, &mails(), PrivacyBudget::new(of_jobs(3, sigma) + 0.01, DELTA).unwrap()).unwrap();
    assert_eq!(fixture.rewind("a", 3, 2).unwrap(), 3);
    assert!(near(fixture.odometer().spent, of_jobs(3, sigma)));
    assert!(matches!(fixture.rewind("a", 3, 1), Err(LedgerError::BranchSuperseded { .. })));
}

#[test]
fn a_budget_is_not_lowered_below_what_is_charged() {
    let sigma = 4.0;
    let fixture = Fixture::new(3.0);
    fixture.create("a", sigma).unwrap();
    let to = |epsilon, delta| grant(&fixture.ledger, &mails(), PrivacyBudget::new(epsilon, delta).unwrap());
    let refused = to(of_jobs(1, sigma) - 0.001, DELTA).unwrap_err();
    assert!(matches!(refused, LedgerError::Invalid { field: "epsilon", .. }), "{refused}");
    // At a smaller δ the same ε is not enough.
    assert!(to(of_jobs(1, sigma) + 0.001, DELTA / 100.0).is_err());
    to(of_jobs(1, sigma) + 0.001, DELTA).unwrap();
    assert!(fixture.create("b", 2.0 * sigma).is_err());
    let unknown = DataSetId::new("letters").unwrap();
    let missing = grant(&fixture.ledger, &unknown, PrivacyBudget::new(1.0, DELTA).unwrap()).unwrap_err();
    assert!(matches!(missing, LedgerError::NotFound { .. }), "{missing}");
}

#[test]
fn an_account_that_is_not_the_data_sets_is_refused() {
    let fixture = Fixture::new(100.0);
    let missing = BudgetedAccount { data_set: DataSetId::new("letters").unwrap(), ..account() };
    assert!(matches!(fixture.create_under("a", 4.0, &missing), Err(LedgerError::NotFound { .. })));
    fixture.create("there", 4.0).unwrap();
    for (other, field) in [
        (BudgetedAccount { unit: PrivacyUnit::Device, ..account() }, "account.unit"),
        (
            BudgetedAccount { neighbouring: NeighbouringRelation::Replace, ..account() },
            "account.neighbouring",
        ),
    ] {
        for job in ["a", "there"] {
            let refused = fixture.create_under(job, 4.0, &other).unwrap_err();
            let is_named = matches!(refused, LedgerError::Invalid { field: named, .. } if named == field);
            assert!(is_named, "{job}: {refused}");
        }
    }
    for (plan, sampling) in [
        (plan_with(0.0), ""),
        (plan_with(1.0), "{\"kind\":\"balls-in-bins\",\"batches_per_epoch\":5}"),
        (plan_with(1.0), "any-order"),
    ] {
        let account = BudgetedAccount { sampling: sampling.to_owned(), ..account() };
        let refused = planned_event(&plan, &account).unwrap_err();
        assert_eq!(refused.kind(), "invalid_argument", "{sampling}: {refused}");
    }
    assert_eq!(fixture.ledger.jobs().unwrap().len(), 1, "that of the data set's own account");
}

/// A sampled job is charged by privacy-loss distributions until it rewinds, and then as if its batches were in any order.
#[test]
fn a_sampled_job_is_amplified_until_it_rewinds() {
    let sigma = 2.0;
    let sampled = BudgetedAccount {
        sampling: r#"{"kind":"cyclic-poisson","sampling_probability":0.01,"partition":"independent"}"#
            .to_owned(),
        ..account()
    };
    let fixture = Fixture::new(20.0);
    fixture.create_under("a", sigma, &sampled).unwrap();
    let amplified = fixture.odometer();
    let rounds = Event::PoissonSampledGaussian { noise_multiplier: sigma, sampling_probability: 0.01 };
    let expected = Account::new(&rounds.times(10), Neighbouring::ZeroOut).unwrap().epsilon(DELTA).unwrap();
    assert!((amplified.reserved / expected - 1.0).abs() < 1e-4, "{amplified:?}, {expected}");
    assert!(!amplified.adaptive);
    fixture.bind("a", 0, 0..1);
    fixture.rewind("a", 0, 0).unwrap();
    // Ten rounds, in all of which a unit may be, and one row that was left.
    let odometer = fixture.odometer();
    assert!(near(odometer.spent, of_jobs(11, sigma)) && odometer.adaptive, "{odometer:?}");
}

/// Who joins a full batch pushes another record out: both contributions move the sum where records are added and removed.
#[test]
fn a_capped_job_counts_twice_once_it_rewinds() {
    let sampling = r#"{"kind":"cyclic-poisson","sampling_probability":0.01,"partition":"independent",
        "cap":{"batch_cap":50,"dataset_size":1000}}"#;
    let relations = [NeighbouringRelation::ZeroOut, NeighbouringRelation::AddRemove];
    for (neighbouring, moved) in relations.into_iter().zip([1.0, 2.0]) {
        let capped = BudgetedAccount { neighbouring, sampling: sampling.to_owned(), ..account() };
        let fixture = Fixture::of(&capped, 20.0);
        fixture.create_under("a", 4.0, &capped).unwrap();
        fixture.bind("a", 0, 0..1);
        fixture.rewind("a", 0, 0).unwrap();
        assert!(near(fixture.odometer().spent, of_jobs(11, 4.0 / moved)), "{neighbouring:?}");
    }
}
