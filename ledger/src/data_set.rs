//! The ledger's records of data sets, and of what jobs are charged for in them.
//!
//! A charge is an event of the crate `accounting`, kept as its JSON: this crate compares texts and composes nothing.

use std::collections::{BTreeMap, BTreeSet};

use proto::{
    BlockId, DataSetId, JobId, Nonce, SweepId, TenantId,
    model::{NeighbouringRelation, PrivacyBudget, PrivacyUnit},
};
use serde::{Deserialize, Serialize};

use crate::{Head, JobState, SweepRecord, approval::Approvals, block::Blocks};

/// A data set with the budget that all its jobs share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSetRecord {
    /// The data set's name.
    pub data_set: DataSetId,
    /// Whose data the budget protects.
    pub unit: PrivacyUnit,
    /// The relation that the budget holds under.
    pub neighbouring: NeighbouringRelation,
    /// The most that all jobs together may cost; where `per_block`, those that read any one block.
    pub budget: PrivacyBudget,
    /// The most that all jobs of each tenant may cost, in order of their names. Where there is one, only tenants with a
    /// share spend.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<TenantId, PrivacyBudget>,
    /// The blocks. Where there is one, every new job names those that it reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks: Blocks,
    /// Whether budget and shares are of each block, and none is of all blocks together. It never changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_block: bool,
    /// Which changes take the consent of a second person, and which have it; `None` where one person makes every change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<Approvals>,
}

/// Whether a charge may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChargeState {
    /// The job runs.
    Open,
    /// The job has ended, and its whole charge stays: when it ended may depend on what it released.
    Final,
    /// The job ended before it bound a row, and is charged for nothing.
    GivenBack,
}

/// What one job is charged for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    /// The data set.
    pub data_set: DataSetId,
    /// The nonce of the job, which no other job of this name has.
    pub job_nonce: Nonce,
    /// The event of the job's whole plan, as JSON.
    pub planned: String,
    /// The event that the job is charged for, as JSON: the plan's until the job rewinds.
    pub event: String,
    /// Whether it may still change.
    pub state: ChargeState,
    /// The sweep that the job is a run of. Then the sweep is charged for in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepId>,
    /// The tenant whose share it is in. It never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The blocks that the job reads; none for all of them, those of the future too. They never change.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub blocks: BTreeSet<BlockId>,
}

/// A job's charge beside what the job has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargedJob {
    /// The job.
    pub job: JobId,
    /// Its charge.
    pub charge: Charge,
    /// The job's state.
    pub state: JobState,
    /// The job's current branch.
    pub branch: u64,
    /// Rows bound on all branches.
    pub rows_bound: u64,
    /// Whether the ledger was adopted while it had the job: rows that the other copy may have released are charged.
    pub is_adopted: bool,
}

/// A data set with all that its budget pays for, and the end of its chain: what an accountant decides on.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSetState {
    /// The data set.
    pub record: DataSetRecord,
    /// Every job that was ever charged here, in order of their names.
    pub charges: Vec<ChargedJob>,
    /// Every sweep that was ever charged here, in order of their names.
    pub sweeps: Vec<SweepRecord>,
    /// The end of the data set's chain.
    pub head: Head,
}

/// The charge of a job that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The data set.
    pub data_set: DataSetId,
    /// The event of the job's whole plan, as JSON.
    pub event: String,
    /// The end of the data set's chain when this was found to fit. `None` for a job that exists, which reserves nothing
    /// more.
    pub expected: Option<Head>,
    /// The sweep that the job is to be a run of, which is charged for in its place.
    pub sweep: Option<SweepId>,
    /// The tenant whose share is charged.
    pub tenant: Option<TenantId>,
    /// The blocks that are charged.
    pub blocks: BTreeSet<BlockId>,
}

/// Why a branch is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchCause {
    /// The job rewinds.
    Rewind,
    /// The job's ledger is adopted: the branch is charged beyond the budget too, and takes no approval.
    Adoption,
}

/// The charge of a job that is to rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recharge {
    /// The event that the job is charged for once it has rewound, as JSON.
    pub event: String,
    /// The end of the data set's chain when this was found to fit.
    pub expected: Head,
    /// The rows that the job had bound on all branches when this was computed.
    pub rows_bound: u64,
}
