//! The bounds that charges must stay within: the whole budget of a data set, that of each of its blocks, and each tenant's share.

use std::collections::BTreeSet;

use accounting::{Account, Event};
use ledger::{BlockRecord, Charge, ChargedJob, DataSetRecord, DataSetState, LedgerError, SweepRecord};
use proto::model::PrivacyBudget;
use proto::{BlockId, DataSetId, TenantId};

use super::counted::{Counted, may_share, together};
use super::events::{self, invalid};

/// What is to be charged, as its refusal says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeKind<'a> {
    /// The plan of a new job in the share of this tenant, or in none.
    Job(Option<&'a TenantId>),
    /// What a rewind leaves behind, of a job in the share of this tenant, or in none.
    Rewind(Option<&'a TenantId>),
    /// A selection, which is in no share.
    Sweep,
}

/// A bound on the composition of some of a data set's charges.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The tenant whose charges count; `None` for all charges.
    pub tenant: Option<TenantId>,
    /// The block that they read; `None` for charges of all blocks.
    pub block: Option<BlockId>,
    /// The most that they may cost.
    pub budget: PrivacyBudget,
}

impl<'a> ChargeKind<'a> {
    fn tenant(self) -> Option<&'a TenantId> {
        match self {
            Self::Job(tenant) | Self::Rewind(tenant) => tenant,
            Self::Sweep => None,
        }
    }

    /// Returns the refusal of a charge in no share, where there are shares.
    fn without_share(self, record: &DataSetRecord) -> LedgerError {
        let names: Vec<&str> = record.shares.keys().map(TenantId::as_str).collect();
        let shares = format!("a share in data set {}: {}", record.data_set, names.join(", "));
        match self {
            Self::Job(None) => {
                let allowed = format!(
                    "a tenant with {shares}; an engine in a Python process names none, and can't spend where there are shares"
                );
                invalid("account.tenant", "missing", allowed)
            }
            Self::Job(Some(tenant)) => invalid("account.tenant", tenant, format!("a tenant with {shares}")),
            Self::Rewind(None) => {
                let allowed = format!(
                    "one that costs nothing, or of a job whose tenant has {shares}; a job from before the first share stays in none"
                );
                invalid("rewind", "of a job in no share", allowed)
            }
            Self::Rewind(Some(tenant)) => {
                let allowed = format!(
                    "one that costs nothing, or of a job whose tenant has {shares}; set a share for tenant {tenant} first"
                );
                invalid("rewind", format!("of a job of tenant {tenant}, which has no share"), allowed)
            }
            Self::Sweep => {
                let allowed =
                    format!("in a data set without shares, as sweeps are in none; there is {shares}");
                invalid("sweep", "not allowed", allowed)
            }
        }
    }
}

impl Bound {
    /// Returns the part of the data set that the bound is on, in words.
    pub fn place(&self, data_set: &DataSetId) -> String {
        match &self.block {
            None => format!("data set {data_set}"),
            Some(block) => format!("block {block} of data set {data_set}"),
        }
    }

    /// Returns the bound on all charges.
    pub fn whole(record: &DataSetRecord) -> Self {
        Self { tenant: None, block: None, budget: record.budget }
    }

    /// Returns the bounds that a budget of the data set, or a tenant's share of it, stands for: one on all charges, or where budgets
    /// are per block, one on those of each block.
    pub fn of_budget(record: &DataSetRecord, tenant: Option<&TenantId>, budget: PrivacyBudget) -> Vec<Self> {
        Self::within(record, tenant, budget, record.blocks.keys())
    }

    fn within<'b>(
        record: &DataSetRecord,
        tenant: Option<&TenantId>,
        budget: PrivacyBudget,
        blocks: impl Iterator<Item = &'b BlockId>,
    ) -> Vec<Self> {
        let bound = |block: Option<&BlockId>| Self { tenant: tenant.cloned(), block: block.cloned(), budget };
        let each: Vec<Self> = blocks.filter(|_| record.per_block).map(Some).map(bound).collect();
        // Without a block there is no bound but that on all.
        if each.is_empty() { vec![bound(None)] } else { each }
    }

    /// Returns the bounds on a charge of a job that names these blocks, or none, which stands for all: on its tenant's share, where
    /// the data set has shares, on the whole, and on each block.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`] where only tenants with a share may spend, and the charge is in none.
    pub fn of_charge(
        record: &DataSetRecord,
        kind: ChargeKind<'_>,
        named: &BTreeSet<BlockId>,
    ) -> Result<Vec<Self>, LedgerError> {
        let blocks: Vec<&BlockId> = match named.len() {
            0 => record.blocks.keys().collect(),
            _ => named.iter().collect(),
        };
        if record.shares.is_empty() {
            return Ok(Self::of_all(record, &blocks));
        }
        let Some((tenant, share)) = kind.tenant().and_then(|tenant| record.shares.get_key_value(tenant))
        else {
            return Err(kind.without_share(record));
        };
        let of_share = Self::within(record, Some(tenant), *share, blocks.iter().copied());
        Ok([of_share, Self::of_all(record, &blocks)].concat())
    }

    /// Returns the bounds on the charges of all tenants. Where budgets are per block, there is none on all blocks together.
    fn of_all(record: &DataSetRecord, blocks: &[&BlockId]) -> Vec<Self> {
        let of_block = |(name, block): (&BlockId, &BlockRecord)| Self {
            tenant: None,
            block: Some(name.clone()),
            budget: block.budget,
        };
        let each = blocks.iter().filter_map(|name| record.blocks.get_key_value(*name)).map(of_block);
        let has_whole = !record.per_block || blocks.is_empty();
        has_whole.then(|| Self::whole(record)).into_iter().chain(each).collect()
    }

    /// Returns the charges under this bound that `counts` selects, in order of their jobs, then those of sweeps; none of what
    /// was given back, and none of a sweep's runs.
    pub fn charged(
        &self,
        state: &DataSetState,
        counts: impl Fn(&ChargedJob) -> bool,
    ) -> Result<Vec<Counted>, LedgerError> {
        let record = &state.record;
        let jobs = self.jobs(state, counts).map(|ChargedJob { job, charge, .. }| {
            events::from_text(job, &charge.event).map(|event| self.counted(event, &charge.blocks, record))
        });
        let sweeps = self
            .sweeps(state)
            .map(|sweep| events::of_sweep(sweep).map(|event| self.counted(event, &BTreeSet::new(), record)));
        jobs.chain(sweeps).collect()
    }

    /// Returns the same charges as the ledger has them: the text of each event, and whether it is shared.
    pub fn texts<'s>(
        &'s self,
        state: &'s DataSetState,
        counts: impl Fn(&ChargedJob) -> bool + 's,
    ) -> impl Iterator<Item = (&'s str, bool)> + 's {
        let record = &state.record;
        let jobs = self
            .jobs(state, counts)
            .map(|ChargedJob { charge, .. }| (charge.event.as_str(), self.is_shared(&charge.blocks, record)));
        let is_shared = self.is_shared(&BTreeSet::new(), record);
        jobs.chain(self.sweeps(state).map(move |sweep| (sweep.charge.as_str(), is_shared)))
    }

    fn jobs<'s>(
        &'s self,
        state: &'s DataSetState,
        counts: impl Fn(&ChargedJob) -> bool + 's,
    ) -> impl Iterator<Item = &'s ChargedJob> + 's {
        let jobs = state.charges.iter().filter(|charged| events::costs(charged) && self.covers(charged));
        jobs.filter(move |charged| counts(charged))
    }

    /// A sweep is in no share, and in every block.
    fn sweeps<'s>(&'s self, state: &'s DataSetState) -> impl Iterator<Item = &'s SweepRecord> + 's {
        state.sweeps.iter().filter(|_| self.tenant.is_none())
    }

    /// Returns what the event of a job that reads these blocks, or of one that names none, counts for.
    pub fn counted(&self, event: Event, named: &BTreeSet<BlockId>, record: &DataSetRecord) -> Counted {
        Counted { event, is_shared: self.is_shared(named, record) }
    }

    fn is_shared(&self, named: &BTreeSet<BlockId>, record: &DataSetRecord) -> bool {
        self.block.is_some() && named.len() != 1 && may_share(record)
    }

    fn covers(&self, charged: &ChargedJob) -> bool {
        let Charge { tenant, blocks, .. } = &charged.charge;
        let is_of_block = self.block.as_ref().is_none_or(|block| blocks.is_empty() || blocks.contains(block));
        is_of_block && (self.tenant.is_none() || *tenant == self.tenant)
    }

    /// Returns ε of all these charges together, at the bound's δ, under the data set's relation.
    pub fn epsilon(&self, charges: Vec<Counted>, record: &DataSetRecord) -> Result<f64, LedgerError> {
        self.epsilon_of(&self.account(charges, record)?)
    }

    /// Returns the account of all these charges together.
    pub fn account(&self, charges: Vec<Counted>, record: &DataSetRecord) -> Result<Account, LedgerError> {
        let account = together(charges, record).and_then(|(event, relation)| Account::new(&event, relation));
        account.map_err(events::unaccounted)
    }

    /// Returns ε of an account at the bound's δ.
    pub fn epsilon_of(&self, account: &Account) -> Result<f64, LedgerError> {
        account.epsilon(self.budget.delta).map_err(events::unaccounted)
    }
}
