//! The events of a data set, and the state that they determine.

use std::collections::{BTreeMap, BTreeSet};

use proto::{
    BlockId, DataSetId, JobId, Nonce, SweepId, TenantId,
    model::{NeighbouringRelation, PrivacyBudget, PrivacyUnit},
};
use serde::{Deserialize, Serialize};

use crate::{
    BlockRecord, SweepRecord,
    data_set::{Charge, ChargeState, DataSetRecord},
};

/// A durable event in the life of a data set. Its JSON, behind who and when ([`Stamp`](crate::Stamp)), is what is stored, hashed
/// and exported, and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum DataSetEvent {
    /// The data set was recorded: always the first event.
    DataSetCreated {
        /// The id of the ledger that it was recorded in.
        ledger: Nonce,
        /// Whose data the budget protects.
        unit: PrivacyUnit,
        /// The relation that the budget holds under.
        neighbouring: NeighbouringRelation,
        /// The budget.
        budget: PrivacyBudget,
        /// Whether it is of each block, and none is of all blocks together.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        per_block: bool,
    },
    /// Another budget took the place of the last.
    BudgetGranted {
        /// The new budget.
        budget: PrivacyBudget,
    },
    /// A tenant has another share, or none any more.
    ShareSet {
        /// The tenant.
        tenant: TenantId,
        /// The share.
        share: Option<PrivacyBudget>,
    },
    /// A block was added.
    BlockAdded {
        /// The block's name.
        name: BlockId,
        /// Its days and its budget.
        block: BlockRecord,
    },
    /// A job was created, and its whole plan is charged for.
    Reserved {
        /// The job.
        job: JobId,
        /// The job's nonce.
        job_nonce: Nonce,
        /// The event of the job's plan, as JSON.
        charge: String,
        /// The tenant whose share it is in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
        /// The blocks that it reads; none for all of them, those of the future too.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        blocks: BTreeSet<BlockId>,
    },
    /// A job rewound.
    Recharged {
        /// The job.
        job: JobId,
        /// The branch that it opened.
        branch: u64,
        /// The event that it is charged for from now on, as JSON.
        charge: String,
    },
    /// A job was finished or destroyed.
    Settled {
        /// The job.
        job: JobId,
        /// Whether it is charged for nothing.
        given_back: bool,
    },
    /// A sweep was recorded, its number of runs was drawn, and the selection among them is charged for.
    SweepReserved {
        /// The sweep.
        sweep: SweepId,
        /// The event of one run, as JSON.
        run: String,
        /// The event that the sweep is charged for, as JSON.
        charge: String,
        /// The digest of the number of runs, [`SweepRecord::commitment`].
        commitment: String,
    },
    /// A job was created as a run of a sweep.
    RunStarted {
        /// The sweep.
        sweep: SweepId,
        /// The job.
        job: JobId,
        /// The job's nonce.
        job_nonce: Nonce,
    },
}

/// The state that a data set has after its events so far.
#[derive(Default)]
pub struct ReplayedDataSet {
    /// The record, and the id of the ledger that it began in.
    pub created: Option<(DataSetRecord, Nonce)>,
    /// What each job is charged for.
    pub charges: BTreeMap<String, Charge>,
    /// What chains say of each sweep.
    pub sweeps: BTreeMap<String, ReplayedSweep>,
}

/// What a chain says of a sweep.
#[derive(Debug, PartialEq)]
pub struct ReplayedSweep {
    data_set: DataSetId,
    run: String,
    charge: String,
    commitment: String,
    started: u64,
}

impl From<&SweepRecord> for ReplayedSweep {
    fn from(record: &SweepRecord) -> Self {
        Self {
            data_set: record.data_set.clone(),
            run: record.run.clone(),
            charge: record.charge.clone(),
            commitment: record.commitment(),
            started: record.started,
        }
    }
}

impl ReplayedDataSet {
    /// Applies the next event. Error: it can't follow those before.
    pub fn apply(&mut self, name: &str, event: DataSetEvent) -> Result<(), &'static str> {
        let Some((record, _)) = &mut self.created else {
            let DataSetEvent::DataSetCreated { ledger, unit, neighbouring, budget, per_block } = event else {
                return Err("a data set is recorded first");
            };
            let data_set = DataSetId::new(name).map_err(|_| "a name that no data set can have")?;
            let shares = BTreeMap::new();
            let blocks = BTreeMap::new();
            let record = DataSetRecord { data_set, unit, neighbouring, budget, shares, blocks, per_block };
            self.created = Some((record, ledger));
            return Ok(());
        };
        match event {
            DataSetEvent::DataSetCreated { .. } => return Err("a data set is recorded once"),
            DataSetEvent::BudgetGranted { budget } => record.budget = budget,
            DataSetEvent::ShareSet { tenant, share } => match share {
                Some(share) => {
                    record.shares.insert(tenant, share);
                }
                None => {
                    record.shares.remove(&tenant).ok_or("a share that was there is taken away")?;
                }
            },
            DataSetEvent::BlockAdded { name, block } => {
                record.check_new_block(&name, &block).map_err(|_| "a block apart from the others")?;
                if record.blocks.insert(name, block).is_some() {
                    return Err("a block is added once");
                }
            }
            DataSetEvent::Reserved { job, job_nonce, charge, tenant, blocks } => {
                record.check_blocks(&blocks).map_err(|_| "a job of blocks that are there")?;
                let charge = Charge {
                    data_set: record.data_set.clone(),
                    job_nonce,
                    planned: charge.clone(),
                    event: charge,
                    state: ChargeState::Open,
                    sweep: None,
                    tenant,
                    blocks,
                };
                self.charge(job, charge)?;
            }
            DataSetEvent::Recharged { job, charge, .. } => self.open(&job)?.event = charge,
            DataSetEvent::Settled { job, given_back } => {
                let state = if given_back { ChargeState::GivenBack } else { ChargeState::Final };
                self.open(&job)?.state = state;
            }
            DataSetEvent::SweepReserved { sweep, run, charge, commitment } => {
                let data_set = record.data_set.clone();
                let replayed = ReplayedSweep { data_set, run, charge, commitment, started: 0 };
                if self.sweeps.insert(sweep.into(), replayed).is_some() {
                    return Err("a sweep is recorded once");
                }
            }
            DataSetEvent::RunStarted { sweep, job, job_nonce } => {
                let of =
                    self.sweeps.get_mut(sweep.as_str()).ok_or("a run of a sweep that reserved nothing")?;
                of.started += 1;
                let charge = Charge {
                    data_set: record.data_set.clone(),
                    job_nonce,
                    planned: of.run.clone(),
                    event: of.run.clone(),
                    state: ChargeState::Open,
                    sweep: Some(sweep),
                    tenant: None,
                    blocks: BTreeSet::new(),
                };
                self.charge(job, charge)?;
            }
        }
        Ok(())
    }

    fn charge(&mut self, job: JobId, charge: Charge) -> Result<(), &'static str> {
        match self.charges.insert(job.into(), charge) {
            None => Ok(()),
            Some(_) => Err("a job reserves once"),
        }
    }

    fn open(&mut self, job: &JobId) -> Result<&mut Charge, &'static str> {
        let charge = self.charges.get_mut(job.as_str()).ok_or("a job that reserved nothing")?;
        if charge.state == ChargeState::Open { Ok(charge) } else { Err("a charge that had been settled") }
    }
}
