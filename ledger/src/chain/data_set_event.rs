//! The events of a data set.

use std::collections::BTreeSet;

use proto::{
    BlockId, JobId, Nonce, PersonId, SweepId, TenantId,
    model::{ApprovalRule, GuardedChange, NeighbouringRelation, PrivacyBudget, PrivacyUnit},
};
use serde::{Deserialize, Serialize};

use crate::BlockRecord;

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
        /// Which changes take the consent of a second person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_rule: Option<ApprovalRule>,
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
        /// Whether it did so because its ledger was adopted.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        adopted: bool,
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
        /// The digest of the number of runs, [`SweepRecord::commitment`](crate::SweepRecord::commitment).
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
    /// A person consented to a change, in the place of an earlier consent to a change of the same subject.
    Approved {
        /// The change.
        change: GuardedChange,
        /// The person.
        approver: PersonId,
        /// The end of the approval, in milliseconds since 1970.
        until_ms: u64,
    },
    /// The next entry is a change that needed this approval, which is used.
    ApprovalUsed {
        /// The change.
        change: GuardedChange,
        /// The person who consented.
        approver: PersonId,
        /// The person who made the change.
        operator: PersonId,
    },
}
