//! What budgets must hold, whatever became of the disk: a plain reading of the data set's chain, entry by entry, which uses
//! the accountant and nothing of what the service decides by.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use accounting::{Account, AccountingError, Event, Neighbouring};
use anyhow::{Context, bail, ensure};
use ledger::{DataSetEvent, Ledger, LedgerError, Stamp};
use proto::{BlockId, DataSetId, JobId, TenantId};
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
    /// Whether the data set is there, with all shares and blocks; `None` until its maker has an answer.
    pub is_open: Option<bool>,
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

/// What one job is charged for.
struct Charge {
    event: Event,
    tenant: Option<TenantId>,
    blocks: BTreeSet<BlockId>,
    /// Whether it was given back, once its job has ended.
    given_back: Option<bool>,
}

/// A budget: of all charges, or of a tenant's, of a block's, or of a tenant's in a block.
type Bound = (Option<TenantId>, Option<BlockId>);

/// The charges and budgets of a chain.
#[derive(Default)]
struct Reading {
    budget: f64,
    is_per_block: bool,
    shares: BTreeMap<TenantId, f64>,
    blocks: BTreeMap<BlockId, f64>,
    charges: BTreeMap<JobId, Charge>,
    branches: BTreeSet<(JobId, u64)>,
    costs: BTreeMap<Bound, f64>,
}

impl Reading {
    /// Applies an entry. Returns whether a budget may be exceeded by it: an adopted ledger is charged for what the other copy may
    /// have released.
    fn apply(&mut self, event: DataSetEvent) -> anyhow::Result<bool> {
        match event {
            DataSetEvent::DataSetCreated { budget, per_block, .. } => {
                self.budget = budget.epsilon;
                self.is_per_block = per_block;
            }
            DataSetEvent::BudgetGranted { budget } => self.budget = budget.epsilon,
            DataSetEvent::ShareSet { tenant, share: Some(share) } => {
                self.shares.insert(tenant, share.epsilon);
            }
            DataSetEvent::BlockAdded { name, block } => {
                self.blocks.insert(name, block.budget.epsilon);
            }
            DataSetEvent::Reserved { job, charge, tenant, blocks, .. } => {
                let event = serde_json::from_str(&charge)?;
                let before =
                    self.charges.insert(job.clone(), Charge { event, tenant, blocks, given_back: None });
                ensure!(before.is_none(), "{job} is charged twice");
            }
            DataSetEvent::Recharged { job, branch, charge, adopted } => {
                self.charge(&job)?.event = serde_json::from_str(&charge)?;
                self.branches.insert((job, branch));
                return Ok(adopted);
            }
            DataSetEvent::Settled { job, given_back } => {
                let before = self.charge(&job)?.given_back.replace(given_back);
                ensure!(before.is_none(), "{job} is settled twice");
            }
            other => bail!("an entry that no buyer asked for: {other:?}"),
        }
        Ok(false)
    }

    fn charge(&mut self, job: &JobId) -> anyhow::Result<&mut Charge> {
        self.charges.get_mut(job).with_context(|| format!("{job} is not charged for"))
    }

    /// Returns every budget that the chain states.
    fn budgets(&self) -> Vec<(Bound, f64)> {
        let of_tenants = self.shares.iter().map(|(tenant, share)| (Some(tenant.clone()), *share));
        let blocks = || self.blocks.keys().cloned().map(Some);
        let mut budgets = Vec::new();
        for (tenant, budget) in iter::once((None, self.budget)).chain(of_tenants) {
            if self.is_per_block {
                budgets.extend(blocks().map(|block| ((tenant.clone(), block), budget)));
            } else {
                budgets.push(((tenant, None), budget));
            }
        }
        budgets.extend(self.blocks.iter().map(|(block, budget)| ((None, Some(block.clone())), *budget)));
        budgets
    }

    /// Returns ε of the charges under a bound. A user's data may lie in several blocks: a job of more than one moves each of them by
    /// twice its sensitivity, as four such jobs of this block alone would.
    fn epsilon(&self, (tenant, block): &Bound) -> Result<f64, AccountingError> {
        let counts = |charge: &&Charge| {
            charge.given_back != Some(true)
                && (tenant.is_none() || charge.tenant == *tenant)
                && block.as_ref().is_none_or(|block| charge.blocks.contains(block))
        };
        let times = |charge: &Charge| if block.is_some() && charge.blocks.len() > 1 { 4 } else { 1 };
        let charges = self.charges.values().filter(counts);
        let events = charges.flat_map(|charge| iter::repeat_n(charge.event.clone(), times(charge))).collect();
        Account::new(&Event::Composed { events }, Neighbouring::ZeroOut)?.epsilon(DELTA)
    }

    /// Returns ε as the odometer of the whole data set has it: where budgets are per block, of the block with most.
    fn cost(&self) -> f64 {
        let of_whole = self
            .costs
            .iter()
            .filter(|((tenant, block), _)| tenant.is_none() && block.is_some() == self.is_per_block);
        of_whole.map(|(_, cost)| *cost).fold(0.0, f64::max)
    }
}

impl History {
    /// Checks the data set of a ledger that has not been adopted, or has.
    pub fn check_budget(&mut self, ledger: &Ledger, is_adopted: bool) {
        if self.purchases.is_open != Some(true) {
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
            for (bound, budget) in reading.budgets() {
                let cost = reading.epsilon(&bound)?;
                let before = reading.costs.insert(bound.clone(), cost).unwrap_or_default();
                self.tally.compositions_read += 1;
                // A charge of an adoption stays above the budget, and what costs nothing is admitted there.
                let is_above = |limit: f64| cost > limit * (1.0 + ROUNDING);
                if is_above(budget) && is_above(before) && !may_exceed {
                    let index = entry.index;
                    self.violation(format!(
                        "entry {index} of the data set's chain: ε = {cost} of the charges of {bound:?}, above its budget of {budget}"
                    ));
                }
            }
        }
        Ok(reading)
    }

    fn check_purchases(&mut self, reading: &Reading) {
        let mut wrong = Vec::new();
        let purchases = &self.purchases;
        let given_back = |job: &JobId| reading.charges.get(job).and_then(|charge| charge.given_back);
        for job in &purchases.admitted {
            if !reading.charges.contains_key(job) {
                wrong.push(format!("{job} was admitted, and nothing is reserved for it"));
            }
        }
        for job in &purchases.refused {
            if reading.charges.contains_key(job) {
                wrong.push(format!("{job} was refused by the budget, and is charged for"));
            }
        }
        for (job, branch) in &purchases.rewound {
            if !reading.branches.contains(&(job.clone(), *branch)) {
                wrong.push(format!("{job} opened branch {branch}, which no entry of the chain charges for"));
            }
        }
        for job in &purchases.bound {
            if given_back(job) == Some(true) {
                wrong.push(format!("{job} has bound a row, and is charged for nothing"));
            }
        }
        for job in &purchases.ended {
            if given_back(job).is_none() {
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
                let cost = reading.cost();
                let said = spent + reserved;
                if (said - cost).abs() > 1e-6 * cost.max(1e-3) {
                    self.violation(format!("the odometer says {said}, the chain {cost}"));
                }
            }
            Err(error) => self.violation(format!("the odometer: {error}")),
        }
    }

    /// Counts what the end of a run shows: charges given back, of the jobs that ended without a row.
    pub fn count_given_back(&mut self, ledger: &Ledger) {
        let Ok(reading) = self.read_chain(ledger) else { return };
        let given_back = |charge: &&Charge| charge.given_back == Some(true);
        self.tally.charges_given_back += reading.charges.values().filter(given_back).count() as u64;
        let unasked = self.purchases.ended.iter().filter(|job| !self.purchases.asked.contains(*job));
        let kept = unasked
            .filter_map(|job| reading.charges.get(job))
            .filter(|charge| charge.given_back == Some(false));
        let kept = kept.count();
        self.tally.charges_kept_of_unused_jobs += kept as u64;
    }
}
