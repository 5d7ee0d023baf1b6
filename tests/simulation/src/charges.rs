//! What budgets must hold, whatever became of the disk: a plain reading of the data set's chain, entry by entry, which uses
//! the accountant and nothing of what the service decides by.

use std::collections::{BTreeMap, BTreeSet};

use accounting::{Account, AccountingError, Event, Neighbouring};
use ledger::{DataSetEvent, Ledger, LedgerError, Stamp};
use proto::{DataSetId, JobId};
use release::budget::Odometer;

use crate::history::History;

/// δ of every budget.
pub const DELTA: f64 = 1e-6;
/// The part of ε by which two orders of one composition may differ.
const ROUNDING: f64 = 1e-9;
const MOST: usize = 10_000;
const MOST_BYTES: usize = 1 << 24;

pub fn data_set() -> DataSetId {
    DataSetId::new("records").expect("a name")
}

/// What answers to buyers stated of their jobs.
#[derive(Debug, Default)]
pub struct Purchases {
    /// The data set is there.
    pub is_open: bool,
    /// Jobs that exist, by an answer.
    pub admitted: BTreeSet<JobId>,
    /// Jobs that the budget did not hold when they were last asked for.
    pub refused: BTreeSet<JobId>,
    /// Jobs of which a row may be bound.
    pub asked: BTreeSet<JobId>,
    /// Jobs of which a row is bound, by an answer.
    pub bound: BTreeSet<JobId>,
    /// Branches that rewinds opened, by an answer.
    pub rewound: BTreeSet<(JobId, u64)>,
    /// Jobs that were finished or destroyed, by an answer.
    pub ended: BTreeSet<JobId>,
}

/// The charges of a chain.
#[derive(Default)]
struct Reading {
    budget: f64,
    charges: BTreeMap<JobId, Event>,
    reserved: BTreeSet<JobId>,
    branches: BTreeSet<(JobId, u64)>,
    /// Jobs that ended, and whether they are charged for nothing.
    settled: BTreeMap<JobId, bool>,
    cost: f64,
}

impl Reading {
    /// Applies an entry. Returns whether a budget may be exceeded by it: an adopted ledger is charged for what the other copy may
    /// have released.
    fn apply(&mut self, event: DataSetEvent) -> Result<bool, serde_json::Error> {
        match event {
            DataSetEvent::DataSetCreated { budget, .. } | DataSetEvent::BudgetGranted { budget } => {
                self.budget = budget.epsilon;
            }
            DataSetEvent::Reserved { job, charge, .. } => {
                self.charges.insert(job.clone(), serde_json::from_str(&charge)?);
                self.reserved.insert(job);
            }
            DataSetEvent::Recharged { job, branch, charge, adopted } => {
                self.charges.insert(job.clone(), serde_json::from_str(&charge)?);
                self.branches.insert((job, branch));
                return Ok(adopted);
            }
            DataSetEvent::Settled { job, given_back } => {
                if given_back {
                    self.charges.remove(&job);
                }
                self.settled.insert(job, given_back);
            }
            // No buyer makes these.
            _ => {}
        }
        Ok(false)
    }

    fn epsilon(&self) -> Result<f64, AccountingError> {
        let events = self.charges.values().cloned().collect();
        Account::new(&Event::Composed { events }, Neighbouring::ZeroOut)?.epsilon(DELTA)
    }
}

impl History {
    /// Checks the data set of a ledger that has not been adopted, or has.
    pub fn check_budget(&mut self, ledger: &Ledger, is_adopted: bool) {
        if !self.purchases.is_open {
            return;
        }
        match self.read_chain(ledger) {
            Ok(reading) => {
                // A copy knows nothing of what its original did since.
                if !is_adopted {
                    self.check_purchases(&reading);
                }
                self.check_odometer(ledger, &reading);
            }
            Err(error) => self.violation(format!("the data set's chain can't be read: {error}")),
        }
    }

    /// Reads the chain, and checks the composition after each entry.
    fn read_chain(&mut self, ledger: &Ledger) -> anyhow::Result<Reading> {
        let mut reading = Reading::default();
        for entry in ledger.data_set_entries(&data_set(), 0, MOST, MOST_BYTES)? {
            let (_, event) = Stamp::split(&entry.event)?;
            let may_exceed = reading.apply(serde_json::from_str(&event)?)?;
            let (before, cost, budget) = (reading.cost, reading.epsilon()?, reading.budget);
            reading.cost = cost;
            self.tally.compositions_read += 1;
            // A charge of an adoption stays above the budget, and what costs nothing is admitted there.
            if cost > budget * (1.0 + ROUNDING) && cost > before * (1.0 + ROUNDING) && !may_exceed {
                let index = entry.index;
                self.violation(format!(
                    "entry {index} of the data set's chain: ε = {cost} of all charges, above the budget of {budget}"
                ));
            }
        }
        Ok(reading)
    }

    fn check_purchases(&mut self, reading: &Reading) {
        let mut wrong = Vec::new();
        let purchases = &self.purchases;
        for job in &purchases.admitted {
            if !reading.reserved.contains(job) {
                wrong.push(format!("{job} was admitted, and nothing is reserved for it"));
            }
        }
        for job in &purchases.refused {
            if reading.reserved.contains(job) {
                wrong.push(format!("{job} was refused by the budget, and is charged for"));
            }
        }
        for (job, branch) in &purchases.rewound {
            if !reading.branches.contains(&(job.clone(), *branch)) {
                wrong.push(format!("{job} opened branch {branch}, which no entry of the chain charges for"));
            }
        }
        for job in &purchases.bound {
            if !reading.charges.contains_key(job) {
                wrong.push(format!("{job} has bound a row, and is charged for nothing"));
            }
        }
        for job in &purchases.ended {
            if !reading.settled.contains_key(job) {
                wrong
                    .push(format!("{job} has ended, and its reservation is kept as that of a job that runs"));
            }
        }
        wrong.iter().for_each(|wrong| self.violation(wrong));
    }

    /// Checks what the service says of the budget.
    fn check_odometer(&mut self, ledger: &Ledger, reading: &Reading) {
        let read = |ledger: &Ledger| -> Result<Odometer, LedgerError> {
            Odometer::of(&ledger.data_set(&data_set())?)
        };
        match read(ledger) {
            Ok(Odometer { spent, reserved, .. }) => {
                let said = spent + reserved;
                if (said - reading.cost).abs() > 1e-6 * reading.cost.max(1e-3) {
                    self.violation(format!("the odometer says {said}, the chain {}", reading.cost));
                }
            }
            Err(error) => self.violation(format!("the odometer: {error}")),
        }
    }

    /// Counts what the end of a run shows: charges given back, of the jobs that ended without a row.
    pub fn count_given_back(&mut self, ledger: &Ledger) {
        let Ok(reading) = self.read_chain(ledger) else { return };
        let given_back = reading.settled.values().filter(|given_back| **given_back).count();
        self.tally.charges_given_back += given_back as u64;
        let unasked = self.purchases.ended.iter().filter(|job| !self.purchases.asked.contains(job));
        let kept = unasked.filter(|job| reading.settled.get(job) == Some(&false)).count();
        self.tally.charges_kept_of_unused_jobs += kept as u64;
    }
}
