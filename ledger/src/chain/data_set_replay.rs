//! A data set reconstructed from its events, one after another.

use std::collections::{BTreeMap, BTreeSet};

use proto::{DataSetId, JobId, Nonce};

use crate::{
    Approval, Approvals, SweepRecord,
    data_set::{Charge, ChargeState, DataSetRecord},
};

use super::{approval_replay::ReplayedApprovals, data_set_event::DataSetEvent};

/// The state that a data set has after its events so far.
#[derive(Default)]
pub struct ReplayedDataSet {
    /// The record, and the id of the ledger that it began in.
    pub created: Option<(DataSetRecord, Nonce)>,
    /// What each job is charged for.
    pub charges: BTreeMap<String, Charge>,
    /// What chains say of each sweep.
    pub sweeps: BTreeMap<String, ReplayedSweep>,
    /// What takes the consent of a second person.
    pub approvals: ReplayedApprovals,
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

/// Returns the data set that the first event of its chain records, and the id of the ledger that it began in.
fn created(name: &str, event: DataSetEvent) -> Result<(DataSetRecord, Nonce), &'static str> {
    let DataSetEvent::DataSetCreated { ledger, unit, neighbouring, budget, per_block, approval_rule } = event
    else {
        return Err("a data set is recorded first");
    };
    let record = DataSetRecord {
        data_set: DataSetId::new(name).map_err(|_| "a name that no data set can have")?,
        unit,
        neighbouring,
        budget,
        shares: BTreeMap::new(),
        blocks: BTreeMap::new(),
        per_block,
        approvals: approval_rule.map(Approvals::from),
    };
    Ok((record, ledger))
}

impl ReplayedDataSet {
    /// Applies the next event, which was made at `at_ms`. Error: it can't follow those before.
    pub fn apply(&mut self, name: &str, at_ms: u64, event: DataSetEvent) -> Result<(), &'static str> {
        let Some((record, _)) = &mut self.created else {
            self.created = Some(created(name, event)?);
            return Ok(());
        };
        self.approvals.check(record, &event)?;
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
            DataSetEvent::Approved { change, approver, until_ms } => {
                let approval = Approval { change, approver, until_ms };
                record.keep_approval(approval, at_ms).map_err(|_| "an approval that a rule asks for")?;
            }
            DataSetEvent::ApprovalUsed { change, approver, operator } => {
                self.approvals.use_one(record, change, &approver, &operator, at_ms)?;
            }
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
