//! Shares of tenants over a real ledger, against closed forms: k Gaussian jobs of μ compose to one of μ√k.
#![allow(clippy::unwrap_used)]

mod data_set;
mod identity_plan;

use accounting::gaussian;
use data_set::{DELTA, account};
use identity_plan::identity_plan;
use ledger::{JobState, Ledger, LedgerError};
use plan::Plan;
use proto::model::{BudgetedAccount, NeighbouringRelation, OpenBranch, PrivacyBudget, SetShare};
use proto::{Commitment, JobId, Nonce, RowRange, SweepId, TenantId, pb};
use release::budget::{
    Sweep, create_job, create_sweep, grant, message_of, open_adopted_branch, open_branch, planned_event,
    set_share,
};
use release::job::define;
use tempfile::TempDir;

const SIGMA: f64 = 4.0;

/// Independent noise, of which one unit takes part in one of ten rounds: μ is 1/σ.
fn plan() -> Plan {
    identity_plan(SIGMA, 10, 1)
}

/// ε of k jobs.
fn of_jobs(k: u64) -> f64 {
    gaussian::epsilon(DELTA, (k as f64).sqrt() / SIGMA).unwrap()
}

fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

fn of(tenant: &str) -> Option<TenantId> {
    Some(tenant).filter(|tenant| !tenant.is_empty()).map(|tenant| TenantId::new(tenant).unwrap())
}

struct Fixture {
    folder: TempDir,
    ledger: Ledger,
}

impl Fixture {
    /// A data set whose budget holds `whole` jobs, and these tenants' shares as many as they say.
    fn new(whole: u64, shares: &[(&str, u64)]) -> Self {
        let folder = TempDir::new().unwrap();
        let ledger =
            data_set::begun(&folder.path().join("ledger.redb"), &account(), of_jobs(whole) + 0.01, false);
        let fixture = Self { folder, ledger };
        for (tenant, jobs) in shares {
            fixture.share(tenant, Some(of_jobs(*jobs) + 0.005)).unwrap();
        }
        fixture
    }

    fn share(&self, tenant: &str, epsilon: Option<f64>) -> Result<(), LedgerError> {
        let share = epsilon.map(|epsilon| PrivacyBudget::new(epsilon, DELTA).unwrap());
        let tenant = TenantId::new(tenant).unwrap();
        set_share(&self.ledger, &SetShare { data_set: account().data_set, tenant, share })
    }

    /// Creates a job in a tenant's share, or in none.
    fn create(&self, name: &str, tenant: &str) -> Result<(), LedgerError> {
        let account = BudgetedAccount { tenant: of(tenant), ..account() };
        let event = planned_event(&plan(), &account).unwrap();
        let text = plan().to_toml_string().unwrap();
        let job = define(id(name), &plan(), text, 1_000, [7; 32], 1, Nonce::from_bytes([9; 32])).unwrap();
        create_job(&self.ledger, &job, &account, &event).map(drop)
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

    /// The tenant's odometer: spent, reserved and left.
    fn odometer(&self, tenant: &str) -> [f64; 3] {
        let shown = message_of(&self.ledger.data_set(&account().data_set).unwrap()).unwrap();
        let share = shown.shares.iter().find(|share| share.tenant == tenant).unwrap();
        let epsilon = |amount: Option<pb::PrivacyAmount>| amount.map_or(f64::NAN, |amount| amount.epsilon);
        [epsilon(share.spent), epsilon(share.reserved), epsilon(share.left)]
    }
}

#[track_caller]
fn beyond(outcome: Result<impl std::fmt::Debug, LedgerError>, tenant: &str) {
    match outcome {
        Err(LedgerError::BudgetExceeded(shortfall)) => assert_eq!(shortfall.tenant, tenant, "{shortfall}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(outcome: Result<(), LedgerError>, field: &str, words: &str) {
    let error = outcome.unwrap_err();
    let is_named = matches!(error, LedgerError::Invalid { field: named, .. } if named == field);
    assert!(is_named && error.to_string().contains(words), "{error}");
}

#[track_caller]
fn near(values: [f64; 3], expected: [f64; 3]) {
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() <= 1e-6, "{values:?}, expected {expected:?}");
    }
}

#[test]
fn both_the_share_and_the_whole_must_hold_a_job() {
    // The shares hold five jobs together, and the whole holds four.
    let fixture = Fixture::new(4, &[("ads", 2), ("search", 3)]);
    for (job, tenant) in [("a1", "ads"), ("a2", "ads"), ("s1", "search"), ("s2", "search")] {
        fixture.create(job, tenant).unwrap();
    }
    beyond(fixture.create("a3", "ads"), "ads");
    // The share of search holds it.
    beyond(fixture.create("s3", "search"), "");
    fixture.bind("a1", 0, 0..1);
    let share = of_jobs(2) + 0.005;
    near(fixture.odometer("ads"), [of_jobs(1), of_jobs(2) - of_jobs(1), share - of_jobs(2)]);
    near(fixture.odometer("search"), [0.0, of_jobs(2), of_jobs(3) + 0.005 - of_jobs(2)]);
    // The chain says the same when it is replayed.
    let Fixture { folder, ledger } = fixture;
    let before = ledger.data_set(&account().data_set).unwrap();
    drop(ledger);
    let ledger = Ledger::open(&folder.path().join("ledger.redb")).unwrap();
    assert_eq!(ledger.data_set(&account().data_set).unwrap(), before);
}

#[test]
fn what_is_said_to_fit_fits_the_share_and_the_whole() {
    let fixture = Fixture::new(2, &[("ads", 1), ("search", 2)]);
    fixture.create("s", "search").unwrap();
    fixture.create("a", "ads").unwrap();
    let LedgerError::BudgetExceeded(shortfall) = fixture.create("b", "ads").unwrap_err() else { panic!() };
    let fits: f64 = shortfall.fits.parse().unwrap();
    let account = BudgetedAccount { tenant: of("ads"), ..account() };
    let with = |sigma: f64| {
        let plan = Plan::from_toml_str(
            &plan()
                .to_toml_string()
                .unwrap()
                .replace("noise_multiplier = 4.0", &format!("noise_multiplier = {sigma:?}")),
        )
        .unwrap();
        assert_eq!(plan.noise_multiplier(), sigma);
        let text = plan.to_toml_string().unwrap();
        let job = define(id("b"), &plan, text, 1_000, [7; 32], 1, Nonce::from_bytes([9; 32])).unwrap();
        create_job(&fixture.ledger, &job, &account, &planned_event(&plan, &account).unwrap())
    };
    assert!(matches!(with(0.98 * fits), Err(LedgerError::BudgetExceeded(_))));
    with(fits).unwrap();
}

#[test]
fn where_there_are_shares_only_their_tenants_spend() {
    let fixture = Fixture::new(9, &[]);
    fixture.create("free", "").unwrap();
    fixture.create("early", "search").unwrap();
    fixture.share("ads", Some(of_jobs(2))).unwrap();
    refused(fixture.create("a", ""), "account.tenant", "a Python process names none");
    refused(fixture.create("a", "search"), "account.tenant", "a tenant with a share in data set mails: ads");
    fixture.create("a", "ads").unwrap();
    // A job from before the shares continues, and opens no branch that costs more.
    fixture.bind("free", 0, 0..3);
    refused(fixture.rewind("free", 1, 0).map(drop), "rewind", "a job from before the first share");
    fixture.bind("early", 0, 0..3);
    refused(fixture.rewind("early", 1, 0).map(drop), "rewind", "set a share for tenant search first");
    fixture.bind("free", 0, 3..4);
    let sweep = Sweep { sweep: SweepId::new("s").unwrap(), mean: 2.0, shape: None };
    let run = planned_event(&plan(), &account()).unwrap();
    refused(create_sweep(&fixture.ledger, &sweep, &account(), &run).map(drop), "sweep", "in none");
    // A share must hold what its tenant is charged for already.
    refused(fixture.share("search", Some(of_jobs(1) - 0.001)), "share.epsilon", "is charged for");
    fixture.share("search", Some(of_jobs(1) + 0.001)).unwrap();
    beyond(fixture.create("late", "search"), "search");
}

#[test]
fn the_last_share_stays_while_anything_is_charged() {
    let fixture = Fixture::new(9, &[]);
    fixture.create("free", "").unwrap();
    fixture.share("ads", Some(of_jobs(2))).unwrap();
    // The free job is in no share, and only reserved.
    refused(fixture.share("ads", None), "share", "set another tenant's share first");
    fixture.share("search", Some(of_jobs(1))).unwrap();
    fixture.share("ads", None).unwrap();
    refused(fixture.share("search", None), "share", "1 jobs and 0 sweeps");
    assert!(matches!(fixture.share("ads", None), Err(LedgerError::NotFound { .. })));
    refused(fixture.create("a", ""), "account.tenant", "missing");
    // Once all is given back, the last one may go.
    fixture.ledger.set_job_state(&id("free"), JobState::Destroyed).unwrap();
    fixture.share("search", None).unwrap();
    let sweep = Sweep { sweep: SweepId::new("s").unwrap(), mean: 2.0, shape: None };
    create_sweep(&fixture.ledger, &sweep, &account(), &planned_event(&plan(), &account()).unwrap()).unwrap();
    fixture.share("ads", Some(of_jobs(2))).unwrap();
    refused(fixture.share("ads", None), "share", "0 jobs and 1 sweeps");
}

#[test]
fn no_plan_on_a_grid_is_charged_under_add_remove() {
    let grid = "layout.dimension = 1000\ngrid = { step = -24, rounding = 'nearest', summing_error = 0.0 }\n[participation]";
    let float = plan().to_toml_string().unwrap();
    let on_grid = Plan::from_toml_str(&float.replacen("[participation]", grid, 1)).unwrap();
    assert!(on_grid.on_grid().is_some());
    let under = |neighbouring| BudgetedAccount { neighbouring, ..account() };
    let error = planned_event(&on_grid, &under(NeighbouringRelation::AddRemove)).unwrap_err().to_string();
    assert!(error.contains("account.neighbouring is add-remove"), "{error}");
    planned_event(&plan(), &under(NeighbouringRelation::AddRemove)).unwrap();
    planned_event(&on_grid, &under(NeighbouringRelation::ZeroOut)).unwrap();
    planned_event(&on_grid, &under(NeighbouringRelation::Replace)).unwrap();
}

#[test]
fn rewinds_are_in_the_jobs_share() {
    let fixture = Fixture::new(9, &[("ads", 2), ("search", 9)]);
    fixture.create("a", "ads").unwrap();
    fixture.create("s", "search").unwrap();
    fixture.bind("a", 0, 0..4);
    assert_eq!(fixture.rewind("a", 2, 0).unwrap(), 1);
    near(fixture.odometer("ads"), [of_jobs(2), 0.0, 0.005]);
    fixture.bind("a", 1, 2..5);
    beyond(fixture.rewind("a", 3, 1), "ads");
    beyond(fixture.create("b", "ads"), "ads");
    near(fixture.odometer("search"), [0.0, of_jobs(1), of_jobs(9) + 0.005 - of_jobs(1)]);
    fixture.bind("a", 1, 5..6);
}

#[test]
fn neither_an_end_nor_a_name_gives_a_share_back() {
    let fixture = Fixture::new(9, &[("ads", 1), ("search", 3)]);
    fixture.create("a", "ads").unwrap();
    fixture.bind("a", 0, 0..1);
    fixture.ledger.set_job_state(&id("a"), JobState::Destroyed).unwrap();
    beyond(fixture.create("b", "ads"), "ads");
    assert!(fixture.create("a", "ads").is_err(), "a destroyed job's name stays in use");
    // One that released nothing is given back to the share that it was in.
    fixture.create("s", "search").unwrap();
    fixture.ledger.set_job_state(&id("s"), JobState::Destroyed).unwrap();
    near(fixture.odometer("search"), [0.0, 0.0, of_jobs(3) + 0.005]);
    beyond(fixture.create("b", "ads"), "ads");
    // A job is in one share for ever.
    fixture.create("t", "search").unwrap();
    let other = fixture.create("t", "ads").unwrap_err();
    assert!(other.to_string().contains("tenant is search, requested ads"), "{other}");
    fixture.create("t", "search").unwrap();
}

/// The other copy may have spent more than the share holds.
#[test]
fn an_adopted_job_is_charged_beyond_its_share_and_nothing_more_is_admitted() {
    let fixture = Fixture::new(9, &[("ads", 1)]);
    fixture.create("a", "ads").unwrap();
    fixture.bind("a", 0, 0..2);
    let request = OpenBranch { job: id("a"), from_row: 2, expected_branch: 0, parent: None };
    open_adopted_branch(&fixture.ledger, &request, Nonce::from_bytes([3; 32])).unwrap();
    let [spent, _, left] = fixture.odometer("ads");
    assert!(spent > of_jobs(1) + 0.1 && left == 0.0, "{spent} {left}");
    beyond(fixture.create("b", "ads"), "ads");
}

#[test]
fn shares_and_budget_keep_their_order() {
    let fixture = Fixture::new(2, &[("ads", 1)]);
    let whole = of_jobs(2) + 0.01;
    refused(fixture.share("search", Some(whole + 0.001)), "share.epsilon", "the whole budget");
    let at = |epsilon, delta| Some(PrivacyBudget::new(epsilon, delta).unwrap());
    let share =
        |share| SetShare { data_set: account().data_set, tenant: TenantId::new("ads").unwrap(), share };
    let wider = set_share(&fixture.ledger, &share(at(0.5, 2.0 * DELTA)));
    refused(wider, "share.delta", "the whole budget");
    let lower = |epsilon, delta| grant(&fixture.ledger, &account().data_set, at(epsilon, delta).unwrap());
    refused(lower(of_jobs(1), DELTA), "epsilon", "the share of tenant ads");
    refused(lower(whole, DELTA / 2.0), "delta", "the share of tenant ads");
    fixture.create("a", "ads").unwrap();
    refused(fixture.share("ads", None), "share", "1 jobs of tenant ads");
    assert!(matches!(fixture.share("search", None), Err(LedgerError::NotFound { .. })));
    // Once nothing is charged the share may go, and with the last one everyone may spend again.
    fixture.ledger.set_job_state(&id("a"), JobState::Destroyed).unwrap();
    fixture.share("ads", None).unwrap();
    fixture.create("b", "").unwrap();
    // At a smaller δ the same jobs cost more.
    set_share(&fixture.ledger, &share(at(of_jobs(1) + 0.005, DELTA / 1e3))).unwrap();
    beyond(fixture.create("c", "ads"), "ads");
}
