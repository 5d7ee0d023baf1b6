//! Blocks of a data set over a real ledger, against closed forms: k Gaussian jobs of μ compose to one of μ√k.
#![allow(clippy::unwrap_used)]

mod data_set;
mod identity_plan;

use accounting::gaussian;
use data_set::DELTA;
use identity_plan::identity_plan;
use ledger::{JobState, Ledger, LedgerError};
use plan::Plan;
use proto::model::{AddBlock, BudgetedAccount, OpenBranch, PrivacyBudget, PrivacyUnit, SetShare};
use proto::{BlockId, BudgetShortfall, Commitment, Day, JobId, Nonce, RowRange, SweepId, TenantId, pb};
use release::budget::{
    Sweep, add_block, create_job, create_sweep, grant, message_of, open_branch, planned_event, set_share,
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

/// Of examples, each of which lies in one block.
fn account() -> BudgetedAccount {
    BudgetedAccount { unit: PrivacyUnit::Example, ..data_set::account() }
}

fn at(epsilon: f64) -> PrivacyBudget {
    PrivacyBudget::new(epsilon, DELTA).unwrap()
}

fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

struct Fixture {
    folder: TempDir,
    ledger: Ledger,
}

impl Fixture {
    /// A data set whose budget holds `most` jobs, and these blocks, a month each, as many as they say.
    fn new(most: u64, per_block: bool, blocks: &[(&str, u64)]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.redb");
        let ledger = data_set::begun(&path, &account(), of_jobs(most) + 0.01, per_block);
        let fixture = Self { folder, ledger };
        for (month, (block, jobs)) in (1..).zip(blocks) {
            fixture.add(block, month, of_jobs(*jobs) + 0.005).unwrap();
        }
        fixture
    }

    fn add(&self, block: &str, month: u32, epsilon: f64) -> Result<(), LedgerError> {
        self.add_with(block, month, Some(at(epsilon)))
    }

    fn add_with(&self, block: &str, month: u32, budget: Option<PrivacyBudget>) -> Result<(), LedgerError> {
        let day = |month: u32| Day::new(format!("2026-{month:02}-01")).unwrap();
        let request = AddBlock {
            data_set: account().data_set,
            block: BlockId::new(block).unwrap(),
            from: day(month),
            until: day(month + 1),
            budget,
        };
        add_block(&self.ledger, &request)
    }

    /// Creates a job that names these blocks, in a tenant's share or in none.
    fn create(&self, name: &str, tenant: Option<&str>, blocks: &[&str]) -> Result<(), LedgerError> {
        let tenant = tenant.map(|tenant| TenantId::new(tenant).unwrap());
        let blocks = blocks.iter().map(|block| BlockId::new(*block).unwrap()).collect();
        let account = BudgetedAccount { tenant, blocks, ..account() };
        let event = planned_event(&plan(), &account).unwrap();
        let text = plan().to_toml_string().unwrap();
        let job = define(id(name), &plan(), text, 1_000, [7; 32], 1, Nonce::from_bytes([9; 32])).unwrap();
        create_job(&self.ledger, &job, &account, &event).map(drop)
    }

    fn bind(&self, name: &str, rows: std::ops::Range<u64>) {
        let rows = RowRange::new(rows.start, rows.end).unwrap();
        let to: Vec<_> = rows.as_range().map(|row| Commitment::of_text(&row.to_string())).collect();
        self.ledger.bind(&id(name), 0, rows, &to).unwrap();
    }

    fn rewind(&self, name: &str) -> Result<(), LedgerError> {
        let request = OpenBranch { job: id(name), from_row: 0, expected_branch: 0, parent: None };
        open_branch(&self.ledger, &request, Nonce::from_bytes([40; 32])).map(drop)
    }

    fn shown(&self) -> pb::DataSet {
        message_of(&self.ledger.data_set(&account().data_set).unwrap()).unwrap()
    }

    /// Spent, reserved and left of a block.
    fn odometer(&self, block: &str) -> [f64; 3] {
        let shown = self.shown();
        let block = shown.blocks.iter().find(|shown| shown.block == block).unwrap();
        [block.spent, block.reserved, block.left].map(|amount| amount.unwrap().epsilon)
    }

    fn entries(&self) -> u64 {
        self.ledger.data_set(&account().data_set).unwrap().head.entries
    }
}

#[track_caller]
fn beyond(outcome: Result<(), LedgerError>, block: &str) -> BudgetShortfall {
    match outcome {
        Err(LedgerError::BudgetExceeded(shortfall)) => {
            assert_eq!(shortfall.block, block, "{shortfall}");
            *shortfall
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(outcome: Result<(), LedgerError>, words: &str) {
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[track_caller]
fn near(values: [f64; 3], expected: [f64; 3]) {
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() <= 1e-6, "{values:?}, expected {expected:?}");
    }
}

#[test]
fn every_block_that_a_job_reads_is_charged_with_its_whole_event() {
    let fixture = Fixture::new(9, false, &[("jan", 2), ("feb", 3), ("mar", 9)]);
    fixture.create("a", None, &["jan", "feb"]).unwrap();
    fixture.create("b", None, &["feb", "jan"]).unwrap();
    let before = fixture.entries();
    let shortfall = beyond(fixture.create("c", None, &["mar", "jan", "feb"]), "jan");
    assert_eq!(fixture.entries(), before);
    let left: f64 = shortfall.left.parse().unwrap();
    assert!((left - 0.005).abs() < 1e-5 && left <= 0.005, "{shortfall}");
    let words = shortfall.to_string();
    assert!(words.contains("block jan of data set mails") && words.contains("other blocks"), "{words}");
    // A μ of 1/σ' that fits beside 2 of 1/4 where the budget holds just above those.
    let fits: f64 = shortfall.fits.parse().unwrap();
    let mu = (2.0 / SIGMA.powi(2) + fits.powi(-2)).sqrt();
    let of_all = gaussian::epsilon(DELTA, mu).unwrap();
    assert!(of_all <= of_jobs(2) + 0.005 && of_all > of_jobs(2) + 0.004, "{fits}: {of_all}");

    fixture.create("c", None, &["feb"]).unwrap();
    beyond(fixture.create("d", None, &["feb", "mar"]), "feb");
    fixture.create("d", None, &["mar"]).unwrap();
    fixture.bind("a", 0..1);
    near(fixture.odometer("jan"), [of_jobs(1), of_jobs(2) - of_jobs(1), 0.005]);
    near(fixture.odometer("feb"), [of_jobs(1), of_jobs(3) - of_jobs(1), 0.005]);
    near(fixture.odometer("mar"), [0.0, of_jobs(1), of_jobs(9) + 0.005 - of_jobs(1)]);
    // An end, and what it gives back, are those of all of its blocks.
    fixture.ledger.set_job_state(&id("b"), JobState::Finished).unwrap();
    near(fixture.odometer("jan"), [of_jobs(1), 0.0, of_jobs(2) + 0.005 - of_jobs(1)]);
    near(fixture.odometer("feb"), [of_jobs(1), of_jobs(2) - of_jobs(1), of_jobs(3) + 0.005 - of_jobs(2)]);
    // And so is a rewind, of a job that left its first row behind: 2 stretches of 1/σ.
    fixture.rewind("a").unwrap();
    near(fixture.odometer("jan"), [of_jobs(2), 0.0, 0.005]);
    fixture.bind("c", 0..1);
    let shortfall = beyond(fixture.rewind("c"), "feb");
    assert!(shortfall.fits.is_empty(), "{shortfall}");

    let before = fixture.shown();
    let Fixture { folder, ledger } = fixture;
    drop(ledger);
    let ledger = Ledger::open(&folder.path().join("ledger.redb")).unwrap();
    assert_eq!(message_of(&ledger.data_set(&account().data_set).unwrap()).unwrap(), before);
}

#[test]
fn the_budget_of_the_whole_holds_beside_those_of_blocks() {
    let fixture = Fixture::new(2, false, &[("jan", 2), ("feb", 2)]);
    fixture.create("a", None, &["jan"]).unwrap();
    fixture.create("b", None, &["feb"]).unwrap();
    // A user with data in both months is charged by both jobs.
    beyond(fixture.create("c", None, &["feb"]), "");
    let shown = fixture.shown();
    assert!((shown.reserved.unwrap().epsilon - of_jobs(2)).abs() < 1e-6 && shown.all_blocks.is_none());
}

#[test]
fn a_budget_of_each_block_bounds_nothing_over_all_and_says_so() {
    let fixture = Fixture::new(2, true, &[]);
    refused(
        fixture.create("a", None, &[]),
        "which has none yet: rustle budget block add mails BLOCK --from DAY --until DAY",
    );
    fixture.add("jan", 1, of_jobs(2) + 0.01).unwrap();
    fixture.add("feb", 2, of_jobs(1) + 0.01).unwrap();
    fixture.create("a", None, &["jan"]).unwrap();
    fixture.create("b", None, &["jan", "feb"]).unwrap();
    beyond(fixture.create("c", None, &["jan"]), "jan");
    fixture.add("mar", 3, of_jobs(2) + 0.01).unwrap();
    fixture.create("c", None, &["mar"]).unwrap();
    let shown = fixture.shown();
    // The fullest block, and all that a user of every month is charged: each job once.
    let epsilons = [shown.reserved, shown.left, shown.all_blocks].map(|amount| amount.unwrap().epsilon);
    near(epsilons, [of_jobs(2), 0.01, of_jobs(3)]);
    assert!(shown.per_block && shown.adaptive);
    refused(fixture.add("apr", 4, of_jobs(2) + 0.02), "as of data set mails");
    let data_set = account().data_set;
    refused(grant(&fixture.ledger, &data_set, at(of_jobs(2) + 0.009)), "the budget of block jan");
    grant(&fixture.ledger, &data_set, at(of_jobs(2) + 0.02)).unwrap();
    fixture.add("apr", 4, of_jobs(2) + 0.02).unwrap();
    // What is not stated is the data set's budget of the day that a block is added, and its own afterwards.
    fixture.add_with("may", 5, None).unwrap();
    grant(&fixture.ledger, &data_set, at(of_jobs(2) + 0.03)).unwrap();
    fixture.add_with("may", 5, None).unwrap();
    let may = fixture.shown().blocks.into_iter().find(|block| block.block == "may").unwrap();
    assert_eq!(may.budget.unwrap().epsilon, of_jobs(2) + 0.02);
}

#[test]
fn blocks_that_can_not_be_named_reserve_nothing() {
    let fixture = Fixture::new(9, false, &[]);
    refused(
        fixture.create("a", None, &["jan"]),
        "account.blocks is jan; allowed: none: data set mails has no blocks",
    );
    fixture.add("jan", 1, 1.5).unwrap();
    fixture.add("jan", 1, 1.5).unwrap();
    refused(fixture.add("jan", 1, 1.4), "exists already with another definition");
    refused(
        fixture.add("late", 1, 1.5),
        "block jan of data set mails has those from 2026-01-01 until 2026-02-01",
    );
    let before = fixture.entries();
    refused(
        fixture.create("a", None, &[]),
        "account.blocks is missing; allowed: the blocks of data set mails",
    );
    refused(fixture.create("a", None, &["jan", "feb"]), "no block named feb in data set mails");
    assert_eq!((fixture.entries(), fixture.ledger.jobs().unwrap().len()), (before, 0));
    fixture.create("a", None, &["jan"]).unwrap();
    fixture.add("feb", 2, 1.5).unwrap();
    refused(fixture.create("a", None, &["feb"]), "blocks are jan, requested feb");
    let plan_event = planned_event(&plan(), &account()).unwrap();
    let sweep = Sweep { sweep: SweepId::new("s").unwrap(), mean: 3.0, shape: None };
    refused(
        create_sweep(&fixture.ledger, &sweep, &account(), &plan_event).map(drop),
        "in a data set without blocks",
    );
}

/// A job from before the first block may have read anything, and reads on.
#[test]
fn jobs_that_name_no_blocks_are_charged_in_all_of_them() {
    let fixture = Fixture::new(5, false, &[]);
    fixture.create("old", None, &[]).unwrap();
    refused(fixture.add("jan", 1, of_jobs(1) - 0.001), "are charged in every block of data set mails");
    fixture.add("jan", 1, of_jobs(1) + 0.01).unwrap();
    beyond(fixture.create("a", None, &["jan"]), "jan");
    // The job is there: it is the same without blocks.
    fixture.create("old", None, &[]).unwrap();
    fixture.add("feb", 2, of_jobs(3)).unwrap();
    near(fixture.odometer("feb"), [0.0, of_jobs(1), of_jobs(3) - of_jobs(1)]);
    fixture.bind("old", 0..1);
    beyond(fixture.rewind("old"), "jan");
}

#[test]
fn a_share_bounds_a_tenant_over_all_blocks_or_in_each() {
    for per_block in [false, true] {
        let fixture = Fixture::new(4, per_block, &[("jan", 3), ("feb", 3)]);
        let tenant = TenantId::new("ads").unwrap();
        let share = |k: u64| SetShare {
            data_set: account().data_set,
            tenant: tenant.clone(),
            share: Some(at(of_jobs(k) + 0.005)),
        };
        set_share(&fixture.ledger, &share(2)).unwrap();
        fixture.create("a", Some("ads"), &["jan"]).unwrap();
        fixture.create("b", Some("ads"), &["jan"]).unwrap();
        let third = fixture.create("c", Some("ads"), &["feb"]);
        let left = |fixture: &Fixture| fixture.shown().shares[0].left.unwrap().epsilon;
        if per_block {
            third.unwrap();
            let shortfall = beyond(fixture.create("d", Some("ads"), &["feb", "jan"]), "jan");
            assert_eq!(shortfall.tenant, "ads");
        } else {
            assert_eq!(beyond(third, "").tenant, "ads");
        }
        assert!((left(&fixture) - 0.005).abs() < 1e-6);
        refused(set_share(&fixture.ledger, &share(1)), "which tenant ads is charged for in");
    }
}
