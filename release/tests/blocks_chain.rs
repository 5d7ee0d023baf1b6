//! Random jobs over random blocks, rewinds, ends, new blocks, grants and restarts: after each, what the chain charges to each block,
//! read with nothing but the accountant, is within the budget that the chain gives it, and so is the whole where it has a bound.
#![allow(clippy::unwrap_used)]

mod data_set;
mod dice;
mod identity_plan;

use std::collections::{BTreeMap, BTreeSet};

use accounting::{Account, Event, Neighbouring};
use data_set::DELTA;
use dice::Dice;
use identity_plan::identity_plan;
use ledger::{DataSetEvent, JobState, Ledger, LedgerError, Stamp};
use plan::Plan;
use proto::model::{AddBlock, BudgetedAccount, OpenBranch, PrivacyBudget, PrivacyUnit};
use proto::{BlockId, Commitment, Day, JobId, Nonce, RowRange};
use release::budget::{add_block, create_job, grant, message_of, open_branch, planned_event};
use release::job::define;
use tempfile::TempDir;

const SEEDS: u64 = 12;
const STEPS: usize = 60;

fn plan_of(sigma: f64) -> Plan {
    identity_plan(sigma, 5, 2)
}

fn at(epsilon: f64) -> PrivacyBudget {
    PrivacyBudget::new(epsilon, DELTA).unwrap()
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::from_bytes(bytes)
}

/// A ledger under random use.
struct World {
    folder: TempDir,
    ledger: Option<Ledger>,
    dice: Dice,
    account: BudgetedAccount,
    jobs: u64,
    blocks: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.redb");
        let unit = if seed % 4 < 2 { PrivacyUnit::Example } else { PrivacyUnit::User };
        let account = BudgetedAccount { unit, ..data_set::account() };
        let ledger = data_set::begun(&path, &account, 3.0, seed % 2 == 1);
        Self { folder, ledger: Some(ledger), dice: Dice(seed), account, jobs: 0, blocks: 0 }
    }

    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    /// One of the jobs so far, with its branch.
    fn job(&mut self) -> Option<(JobId, u64)> {
        let number = 1 + self.dice.below(self.jobs.max(1));
        let job = JobId::new(format!("job-{number}")).unwrap();
        let record = self.ledger().job(&job).unwrap()?;
        Some((job, record.branch))
    }

    fn step(&mut self) -> Result<(), LedgerError> {
        match self.dice.below(16) {
            0..=6 => self.create(),
            7 if self.blocks < 5 => self.add(),
            8 | 9 => {
                let Some((job, branch)) = self.job() else { return Ok(()) };
                let next = self.ledger().binding_summary(&job, branch)?.next_row;
                let rows = RowRange::new(next, next + 1).unwrap();
                let to = Commitment::of_text(&format!("{branch} {next}"));
                self.ledger().bind(&job, branch, rows, &[to]).map(drop)
            }
            10 | 11 => {
                let Some((job, expected_branch)) = self.job() else { return Ok(()) };
                let from_row = self.dice.below(3);
                let back = OpenBranch { job, from_row, expected_branch, parent: None };
                open_branch(self.ledger(), &back, nonce(1_000 + expected_branch)).map(drop)
            }
            12 | 13 => {
                let Some((job, _)) = self.job() else { return Ok(()) };
                self.ledger().set_job_state(&job, JobState::Finished).map(drop)
            }
            14 => {
                let epsilon = 2.0 + self.dice.below(40) as f64 / 10.0;
                grant(self.ledger(), &self.account.data_set, at(epsilon))
            }
            _ => {
                self.ledger = None;
                self.ledger = Some(Ledger::open(&self.folder.path().join("ledger.redb")).unwrap());
                Ok(())
            }
        }
    }

    /// A job of some blocks, of none where there is none; now and then of one that is not there.
    fn create(&mut self) -> Result<(), LedgerError> {
        self.jobs += 1;
        let job = JobId::new(format!("job-{}", self.jobs)).unwrap();
        let last = self.blocks + u64::from(self.dice.below(20) == 0);
        let named = (1..=last).filter(|_| self.dice.below(2) == 0);
        let blocks = named.map(|number| BlockId::new(format!("b{number}")).unwrap()).collect();
        let plan = plan_of([4.0, 8.0, 16.0][self.dice.below(3) as usize]);
        let account = BudgetedAccount { blocks, ..self.account.clone() };
        let event = planned_event(&plan, &account).unwrap();
        let text = plan.to_toml_string().unwrap();
        let job = define(job, &plan, text, 1_000, [7; 32], 1, nonce(self.jobs)).unwrap();
        create_job(self.ledger(), &job, &account, &event).map(drop)
    }

    fn add(&mut self) -> Result<(), LedgerError> {
        let number = self.blocks + 1;
        // Some begin in the month before.
        let from = number - self.dice.below(2).min(number - 1);
        let day = |month: u64| Day::new(format!("2026-{month:02}-01")).unwrap();
        let request = AddBlock {
            data_set: self.account.data_set.clone(),
            block: BlockId::new(format!("b{number}")).unwrap(),
            from: day(from),
            until: day(number + 1),
            budget: Some(at(0.5 + self.dice.below(25) as f64 / 10.0)),
        };
        add_block(self.ledger(), &request)?;
        self.blocks = number;
        Ok(())
    }

    fn read(&self) -> Reading {
        let entries = self.ledger().data_set_entries(&self.account.data_set, 0, 10_000, 1 << 24).unwrap();
        let mut reading = Reading::default();
        for entry in entries {
            reading.apply(serde_json::from_str(&Stamp::split(&entry.event).unwrap().1).unwrap());
        }
        reading
    }
}

/// What the chain says.
#[derive(Default)]
struct Reading {
    budget: f64,
    unit: Option<PrivacyUnit>,
    per_block: bool,
    blocks: BTreeMap<BlockId, f64>,
    charges: BTreeMap<JobId, (Event, BTreeSet<BlockId>)>,
}

impl Reading {
    fn apply(&mut self, event: DataSetEvent) {
        let of = |text: &str| serde_json::from_str::<Event>(text).unwrap();
        match event {
            DataSetEvent::DataSetCreated { budget, per_block, unit, .. } => {
                (self.budget, self.per_block, self.unit) = (budget.epsilon, per_block, Some(unit));
            }
            DataSetEvent::BudgetGranted { budget } => self.budget = budget.epsilon,
            DataSetEvent::BlockAdded { name, block } => drop(self.blocks.insert(name, block.budget.epsilon)),
            DataSetEvent::Reserved { job, charge, blocks, .. } => {
                self.charges.insert(job, (of(&charge), blocks));
            }
            DataSetEvent::Recharged { job, charge, .. } => {
                self.charges.get_mut(&job).unwrap().0 = of(&charge);
            }
            DataSetEvent::Settled { job, given_back: true } => drop(self.charges.remove(&job)),
            DataSetEvent::Settled { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    /// ε of the charges of jobs that may have read the block; of all for `None`.
    fn epsilon(&self, block: Option<&BlockId>) -> f64 {
        let reads = |blocks: &BTreeSet<BlockId>| {
            block.is_none_or(|block| blocks.is_empty() || blocks.contains(block))
        };
        // Less data of a user in one of several blocks moves each sum by twice the clip norm: a μ twice as large, as of four jobs.
        let times = |blocks: &BTreeSet<BlockId>| match self.unit {
            Some(PrivacyUnit::User) if block.is_some() && blocks.len() != 1 => 4,
            _ => 1,
        };
        let events = self.charges.values().filter(|(_, blocks)| reads(blocks));
        let events = events.map(|(event, blocks)| event.clone().times(times(blocks))).collect();
        Account::new(&Event::Composed { events }, Neighbouring::ZeroOut).unwrap().epsilon(DELTA).unwrap()
    }
}

#[test]
fn no_order_of_requests_takes_more_than_the_budget_of_a_block() {
    let mut counts = [0u64; 3];
    let mut shared = 0u64;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            match world.step() {
                Ok(()) => counts[0] += 1,
                Err(LedgerError::BudgetExceeded(_)) => counts[1] += 1,
                Err(_) => counts[2] += 1,
            }
            let reading = world.read();
            let shown = message_of(&world.ledger().data_set(&world.account.data_set).unwrap()).unwrap();
            assert_eq!(shown.blocks.len(), reading.blocks.len());
            let mut fullest: f64 = 0.0;
            for (line, (block, budget)) in shown.blocks.iter().zip(&reading.blocks) {
                let charged = reading.epsilon(Some(block));
                let here = format!("seed {seed}, step {step}, block {block}: {charged} of {budget}");
                assert!(charged <= budget * (1.0 + 1e-9), "{here}");
                let total = line.spent.unwrap().epsilon + line.reserved.unwrap().epsilon;
                assert!(line.block == block.as_str() && (total - charged).abs() <= 1e-6, "{here}: {line:?}");
                fullest = fullest.max(charged);
                shared += u64::from(reading.charges.values().any(|(_, blocks)| blocks.len() > 1));
            }
            let all = reading.epsilon(None);
            let total = shown.spent.unwrap().epsilon + shown.reserved.unwrap().epsilon;
            let here = format!("seed {seed}, step {step}: {total}, {all} of {}", reading.budget);
            if reading.per_block {
                assert!(
                    (total - fullest).abs() <= 1e-6 && fullest <= reading.budget * (1.0 + 1e-9),
                    "{here}"
                );
                assert!((shown.all_blocks.unwrap().epsilon - all).abs() <= 1e-6, "{here}");
            } else {
                assert!((total - all).abs() <= 1e-6 && all <= reading.budget * (1.0 + 1e-9), "{here}");
            }
        }
    }
    // Every kind of outcome came up often, and jobs of several blocks.
    assert!(counts.iter().all(|count| *count > SEEDS) && shared > SEEDS, "{counts:?} {shared}");
}
