//! Random jobs, sweeps, rewinds, ends, grants, shares and restarts on one data set: after each, the composed event that the
//! chain states, read with nothing but the accountant, is within the budget that the chain states, and so is each tenant's
//! within its share.
#![allow(clippy::unwrap_used)]

mod data_set;
mod dice;
mod identity_plan;

use std::collections::BTreeMap;

use accounting::{Account, Event, Neighbouring};
use data_set::{DELTA, account};
use dice::Dice;
use identity_plan::identity_plan;
use ledger::{DataSetEvent, JobState, Ledger, LedgerError, Stamp};
use plan::Plan;
use proto::model::{BudgetedAccount, OpenBranch, PrivacyBudget, SetShare};
use proto::{BudgetShortfall, Commitment, JobId, Nonce, RowRange, SweepId, TenantId};
use release::budget::{
    Odometer, Sweep, create_job, create_run, create_sweep, grant, open_branch, planned_event, set_share,
};
use release::job::{JobDefinition, define};
use tempfile::TempDir;

const SEEDS: u64 = 12;
const STEPS: usize = 50;

fn plan_of(sigma: f64) -> Plan {
    identity_plan(sigma, 5, 2)
}

fn definition(job: &JobId, plan: &Plan, nonce: u64) -> JobDefinition {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&nonce.to_le_bytes());
    let plan_toml = plan.to_toml_string().unwrap();
    define(job.clone(), plan, plan_toml, 1_000, [7; 32], 1, Nonce::from_bytes(bytes)).unwrap()
}

/// A ledger under random use.
struct World {
    folder: TempDir,
    ledger: Option<Ledger>,
    dice: Dice,
    jobs: u64,
    /// Whether tenants get shares: then hardly any sweep is admitted.
    has_shares: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.redb");
        let ledger = data_set::begun(&path, &account(), 3.0, false);
        Self { folder, ledger: Some(ledger), dice: Dice(seed), jobs: 0, has_shares: seed % 3 == 2 }
    }

    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    fn tenant(&mut self) -> Option<TenantId> {
        [Some("ads"), Some("search"), None][self.dice.below(3) as usize]
            .map(|name| TenantId::new(name).unwrap())
    }

    /// One of the jobs so far.
    fn job(&mut self) -> JobId {
        let number = 1 + self.dice.below(self.jobs.max(1));
        JobId::new(format!("job-{number}")).unwrap()
    }

    fn step(&mut self) -> Result<(), LedgerError> {
        // A sweep and its runs have one σ, so that most runs differ from none before but in their number.
        let number = self.dice.below(3);
        let plan = plan_of([4.0, 8.0, 16.0][number as usize]);
        let event = planned_event(&plan, &account()).unwrap();
        let sweep = SweepId::new(format!("sweep-{number}")).unwrap();
        match self.dice.below(16) {
            0 | 14 | 15 => {
                self.jobs += 1;
                let job = JobId::new(format!("job-{}", self.jobs)).unwrap();
                let account = BudgetedAccount { tenant: self.tenant(), ..account() };
                create_job(self.ledger(), &definition(&job, &plan, self.jobs), &account, &event).map(drop)
            }
            12 | 13 if self.has_shares => {
                let tenant = self.tenant().unwrap_or_else(|| TenantId::new("ads").unwrap());
                let epsilon = 0.5 + self.dice.below(40) as f64 / 10.0;
                let share = (self.dice.below(6) > 0).then(|| PrivacyBudget::new(epsilon, DELTA).unwrap());
                set_share(self.ledger(), &SetShare { data_set: account().data_set, tenant, share })
            }
            1 => {
                let shape = [None, Some(1.0)][self.dice.below(2) as usize];
                let sweep = Sweep { sweep, mean: 3.0, shape };
                create_sweep(self.ledger(), &sweep, &account(), &event).map(drop)
            }
            2 | 8..=11 => {
                self.jobs += 1;
                let job = JobId::new(format!("job-{}", self.jobs)).unwrap();
                let definition = definition(&job, &plan, self.jobs);
                create_run(self.ledger(), &sweep, &definition, &account(), &event).map(drop)
            }
            3 | 4 => {
                let job = self.job();
                let Some(record) = self.ledger().job(&job)? else { return Ok(()) };
                let next = self.ledger().binding_summary(&job, record.branch)?.next_row;
                let rows = RowRange::new(next, next + 1).unwrap();
                let to = Commitment::of_text(&format!("{} {next}", record.branch));
                self.ledger().bind(&job, record.branch, rows, &[to]).map(drop)
            }
            5 => {
                let job = self.job();
                let Some(record) = self.ledger().job(&job)? else { return Ok(()) };
                let from_row = self.dice.below(3);
                let back = OpenBranch { job, from_row, expected_branch: record.branch, parent: None };
                let nonce = Nonce::from_bytes([100 + record.branch as u8; 32]);
                open_branch(self.ledger(), &back, nonce).map(drop)
            }
            6 => {
                let job = self.job();
                self.ledger().set_job_state(&job, JobState::Finished).map(drop)
            }
            _ => {
                let epsilon = 1.0 + self.dice.below(40) as f64 / 10.0;
                let budget = PrivacyBudget::new(epsilon, DELTA).unwrap();
                grant(self.ledger(), &account().data_set, budget)
            }
        }
    }

    fn reopen(&mut self) {
        self.ledger = None;
        self.ledger = Some(Ledger::open(&self.folder.path().join("ledger.redb")).unwrap());
    }

    /// The chain's budget, and ε of what it charges.
    fn read(&self) -> Reading {
        let entries = self.ledger().data_set_entries(&account().data_set, 0, 10_000, 1 << 24).unwrap();
        let mut reading = Reading::default();
        for entry in entries {
            reading.apply(serde_json::from_str(&Stamp::split(&entry.event).unwrap().1).unwrap());
        }
        reading
    }
}

#[derive(Default)]
struct Reading {
    budget: f64,
    charges: BTreeMap<String, String>,
    runs: BTreeMap<String, u64>,
    tenants: BTreeMap<String, String>,
    shares: BTreeMap<String, f64>,
}

impl Reading {
    fn apply(&mut self, event: DataSetEvent) {
        match event {
            DataSetEvent::DataSetCreated { budget, .. } | DataSetEvent::BudgetGranted { budget } => {
                self.budget = budget.epsilon;
            }
            DataSetEvent::Reserved { job, charge, tenant, .. } => {
                self.tenants.extend(tenant.map(|tenant| (job.to_string(), tenant.to_string())));
                self.charges.insert(job.to_string(), charge);
            }
            DataSetEvent::Recharged { job, charge, .. } => {
                self.charges.insert(job.to_string(), charge);
            }
            DataSetEvent::ShareSet { tenant, share: Some(share) } => {
                self.shares.insert(tenant.to_string(), share.epsilon);
            }
            DataSetEvent::ShareSet { tenant, share: None } => drop(self.shares.remove(tenant.as_str())),
            DataSetEvent::SweepReserved { sweep, charge, .. } => {
                self.charges.insert(format!("of sweep {sweep}"), charge);
            }
            DataSetEvent::RunStarted { sweep, .. } => *self.runs.entry(sweep.to_string()).or_default() += 1,
            DataSetEvent::Settled { job, given_back: true } => drop(self.charges.remove(job.as_str())),
            DataSetEvent::Settled { .. }
            | DataSetEvent::BlockAdded { .. }
            | DataSetEvent::Approved { .. }
            | DataSetEvent::ApprovalUsed { .. } => {}
        }
    }

    fn epsilon(&self) -> f64 {
        self.epsilon_of(|_| true)
    }

    /// ε of the charges of the jobs that `counts` selects.
    fn epsilon_of(&self, counts: impl Fn(&str) -> bool) -> f64 {
        let charges = self.charges.iter().filter(|(job, _)| counts(job));
        let events = charges.map(|(_, text)| serde_json::from_str(text).unwrap()).collect();
        Account::new(&Event::Composed { events }, Neighbouring::ZeroOut).unwrap().epsilon(DELTA).unwrap()
    }
}

/// What a refusal shows of a budget is all of it, of a rewind too, whose own job is charged.
fn assert_sums_up(shortfall: &BudgetShortfall) {
    let BudgetShortfall { budget, spent, reserved, left, .. } = shortfall;
    let [budget, parts @ ..] = [budget, spent, reserved, left].map(|text| text.parse::<f64>().unwrap());
    assert!((parts.iter().sum::<f64>() - budget).abs() < 3e-6, "{shortfall:?}");
}

#[test]
fn no_order_of_requests_takes_more_than_the_budget() {
    let mut counts = [0u64; 3];
    let mut shared = 0u64;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            match world.step() {
                Ok(()) => counts[0] += 1,
                Err(LedgerError::BudgetExceeded(shortfall)) => {
                    counts[1] += 1;
                    assert_sums_up(&shortfall);
                }
                Err(_) => counts[2] += 1,
            }
            if world.dice.below(10) == 0 {
                world.reopen();
            }
            let reading = world.read();
            let epsilon = reading.epsilon();
            assert!(
                epsilon <= reading.budget * (1.0 + 1e-9),
                "seed {seed}, step {step}: {epsilon} > {}",
                reading.budget
            );
            for (tenant, share) in &reading.shares {
                let own = reading.epsilon_of(|job| reading.tenants.get(job) == Some(tenant));
                assert!(own <= share * (1.0 + 1e-9), "seed {seed}, step {step}: {tenant} {own} > {share}");
                shared += u64::from(own > 0.0);
            }
            for (sweep, runs) in &reading.runs {
                let record = world.ledger().sweep(&SweepId::new(sweep.as_str()).unwrap()).unwrap();
                assert!(
                    record.started == *runs && *runs <= record.runs,
                    "seed {seed}, step {step}: {record:?}"
                );
            }
            let Odometer { spent, reserved, .. } =
                Odometer::of(&world.ledger().data_set(&account().data_set).unwrap()).unwrap();
            assert!(
                (spent + reserved - epsilon).abs() <= 1e-6 * epsilon.max(1e-3),
                "seed {seed}, step {step}"
            );
        }
    }
    // Every kind of outcome came up often.
    assert!(counts.iter().all(|count| *count > SEEDS) && shared > SEEDS, "{counts:?} {shared}");
}
