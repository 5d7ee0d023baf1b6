//! Jobs of random kinds until the budget is full: each decision is that of the plain accountant on the whole composition, and
//! what is charged stays within the budget by the plain accountant's reading.
#![allow(clippy::unwrap_used)]

mod data_set;
mod dice;
mod identity_plan;

use accounting::{Account, Event, Neighbouring};
use data_set::{DELTA, account};
use dice::Dice;
use identity_plan::identity_plan;
use ledger::{Ledger, LedgerError};
use plan::Plan;
use proto::model::{BudgetedAccount, NeighbouringRelation};
use proto::{JobId, Nonce, SweepId};
use release::budget::{Odometer, Sweep, create_job, create_sweep, planned_event};
use release::job::define;
use tempfile::TempDir;

const SEEDS: u64 = 9;
/// Most jobs of one seed; budgets are full before.
const MOST: u64 = 60;

/// A data set under random jobs, and what it is charged for.
struct World {
    _folder: TempDir,
    ledger: Ledger,
    account: BudgetedAccount,
    relation: Neighbouring,
    epsilon: f64,
    dice: Dice,
    charged: Vec<Event>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (neighbouring, relation) = [
            (NeighbouringRelation::ZeroOut, Neighbouring::ZeroOut),
            (NeighbouringRelation::AddRemove, Neighbouring::AddRemove),
            (NeighbouringRelation::Replace, Neighbouring::Replace),
        ][seed as usize % 3];
        let mut dice = Dice(seed);
        let epsilon = 2.6 + dice.below(30) as f64 / 10.0;
        let account = BudgetedAccount { neighbouring, ..account() };
        let folder = TempDir::new().unwrap();
        let ledger = data_set::begun(&folder.path().join("ledger.redb"), &account, epsilon, false);
        Self { _folder: folder, ledger, account, relation, epsilon, dice, charged: Vec::new() }
    }

    /// A plan and an account of its batches; large in the beginning, as a charge that is left out then shows.
    fn draw(&mut self) -> (Plan, BudgetedAccount) {
        let sigma = [4.0, 6.0, 9.0, 12.0][self.dice.below(4) as usize];
        let sigma = if self.charged.is_empty() { 3.5 * self.relation.factor() } else { sigma };
        let q = [0.05, 0.01, 0.2][self.dice.below(3) as usize];
        let sampling = format!(
            "{{\"kind\":\"cyclic-poisson\",\"sampling_probability\":{q},\"partition\":\"independent\"}}"
        );
        let is_sampled = !self.charged.is_empty() && self.dice.below(2) == 0;
        let sampling = if is_sampled { sampling } else { String::new() };
        let plan = identity_plan(sigma, 5, 1 + self.dice.below(2));
        (plan, BudgetedAccount { sampling, ..self.account.clone() })
    }

    fn create(&self, plan: &Plan, account: &BudgetedAccount, event: &Event) -> Result<(), LedgerError> {
        let number = self.charged.len();
        let job = JobId::new(format!("job-{number:03}")).unwrap();
        let nonce = Nonce::from_bytes([number as u8; 32]);
        let text = plan.to_toml_string().unwrap();
        let job = define(job, plan, text, 1_000, [7; 32], 1, nonce).unwrap();
        create_job(&self.ledger, &job, account, event).map(drop)
    }

    /// Records a sweep, which turns the whole composition to Rényi divergences.
    fn sweep(&mut self) {
        let run = planned_event(&identity_plan(24.0 * self.relation.factor(), 10, 1), &self.account).unwrap();
        let sweep = Sweep { sweep: SweepId::new("rates").unwrap(), mean: 3.0, shape: Some(1.0) };
        create_sweep(&self.ledger, &sweep, &self.account, &run).unwrap();
        self.charged.push(Event::RepeatAndSelect { event: Box::new(run), mean: 3.0, shape: Some(1.0) });
    }

    fn epsilon_with(&self, asked: Option<&Event>) -> f64 {
        let events = self.charged.iter().chain(asked).cloned().collect();
        Account::new(&Event::Composed { events }, self.relation).unwrap().epsilon(DELTA).unwrap()
    }
}

#[test]
fn decisions_are_those_of_the_exact_composition() {
    let mut counts = [0u64; 2];
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let mut refused = 0;
        for step in 0..MOST {
            if step == 1 && seed % 4 == 3 {
                world.sweep();
            }
            let (plan, account) = world.draw();
            let event = planned_event(&plan, &account).unwrap();
            let exact = world.epsilon_with(Some(&event));
            let outcome = world.create(&plan, &account, &event);
            assert!(
                outcome.is_ok() == (exact <= world.epsilon),
                "seed {seed}, step {step}: {exact} of {}: {outcome:?}",
                world.epsilon
            );
            match outcome {
                Ok(()) => world.charged.push(event),
                Err(LedgerError::BudgetExceeded(_)) => refused += 1,
                Err(other) => panic!("seed {seed}, step {step}: {other}"),
            }
            if refused == 3 {
                break;
            }
        }
        counts[0] += world.charged.len() as u64;
        counts[1] += refused;
        let reading = Odometer::of(&world.ledger.data_set(&world.account.data_set).unwrap()).unwrap();
        let charged = world.epsilon_with(None);
        assert!(charged <= world.epsilon && reading.left >= 0.0, "seed {seed}: {charged}, {reading:?}");
    }
    assert!(counts[0] > 5 * SEEDS && counts[1] > SEEDS, "{counts:?}");
}
