//! Changes that take the consent of a second person.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::data_sets::{PrivacyBudget, SetShare};
use super::jobs::OpenBranch;
use crate::{DataSetId, JobId, Result, ServiceError, TenantId, pb};

/// The longest time that an approval is valid for: a week, in seconds.
const MAX_VALID_S: u32 = 7 * 24 * 3600;

/// A change of one data set with all that it says: two that are equal do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum GuardedChange {
    /// Another budget takes the place of the last.
    Budget {
        /// The new budget.
        budget: PrivacyBudget,
    },
    /// A tenant gets another share, or none any more.
    Share {
        /// The tenant.
        tenant: TenantId,
        /// The share.
        share: Option<PrivacyBudget>,
    },
    /// A job opens a branch.
    Rewind {
        /// The job.
        job: JobId,
        /// The branch's first row.
        from_row: u64,
        /// The current branch before.
        expected_branch: u64,
        /// The branch whose earlier rows are kept.
        parent: u64,
    },
}

impl GuardedChange {
    /// Returns whether both are of one subject: the budget, the share of one tenant, or the rewinds of one job.
    #[must_use]
    pub fn is_of_same_subject(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Budget { .. }, Self::Budget { .. }) => true,
            (Self::Share { tenant, .. }, Self::Share { tenant: other, .. }) => tenant == other,
            (Self::Rewind { job, .. }, Self::Rewind { job: other, .. }) => job == other,
            _ => false,
        }
    }

    /// Returns the command by which another person approves exactly this change of the data set.
    #[must_use]
    pub fn approving_command(&self, data_set: &DataSetId) -> String {
        let amount =
            |budget: &PrivacyBudget| format!("--epsilon {} --delta {}", budget.epsilon, budget.delta);
        match self {
            Self::Budget { budget } => format!("rustle budget approve grant {data_set} {}", amount(budget)),
            Self::Share { tenant, share } => {
                let share = share.as_ref().map_or_else(|| "--remove".to_owned(), amount);
                format!("rustle budget approve share {data_set} --tenant {tenant} {share}")
            }
            Self::Rewind { job, from_row, expected_branch, parent } => {
                let parent =
                    if parent == expected_branch { String::new() } else { format!(" --parent {parent}") };
                format!(
                    "rustle budget approve rewind --job {job} --to-row {from_row} --expected-branch {expected_branch}{parent}"
                )
            }
        }
    }
}

impl fmt::Display for GuardedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |budget: &PrivacyBudget| format!("ε = {} at δ = {}", budget.epsilon, budget.delta);
        match self {
            Self::Budget { budget } => write!(f, "a budget of {}", amount(budget)),
            Self::Share { tenant, share: Some(share) } => {
                write!(f, "a share of {} for tenant {tenant}", amount(share))
            }
            Self::Share { tenant, share: None } => write!(f, "no share for tenant {tenant}"),
            Self::Rewind { job, from_row, expected_branch, parent } => {
                write!(f, "a rewind of job {job} to row {from_row} of branch {parent}")?;
                if parent != expected_branch { write!(f, ", from branch {expected_branch}") } else { Ok(()) }
            }
        }
    }
}

impl From<&OpenBranch> for GuardedChange {
    fn from(request: &OpenBranch) -> Self {
        let OpenBranch { job, from_row, expected_branch, parent } = request;
        Self::Rewind {
            job: job.clone(),
            from_row: *from_row,
            expected_branch: *expected_branch,
            parent: parent.unwrap_or(*expected_branch),
        }
    }
}

/// A request to approve a change.
#[derive(Clone, Debug, PartialEq)]
pub struct ApproveChange {
    /// The data set; `None` for a rewind, which is of the one that its job is charged in.
    pub data_set: Option<DataSetId>,
    /// The change.
    pub change: GuardedChange,
    /// Milliseconds until the approval ends.
    pub valid_ms: u64,
}

impl TryFrom<pb::ApproveChangeRequest> for ApproveChange {
    type Error = ServiceError;
    fn try_from(request: pb::ApproveChangeRequest) -> Result<Self> {
        use pb::approve_change_request::Change;
        let pb::ApproveChangeRequest { change, valid_s } = request;
        if !(1..=MAX_VALID_S).contains(&valid_s) {
            return Err(ServiceError::invalid("valid_s", valid_s, format!("1 to {MAX_VALID_S}, a week")));
        }
        let valid_ms = u64::from(valid_s) * 1000;
        match change.ok_or_else(|| ServiceError::missing("change"))? {
            Change::GrantBudget(pb::GrantBudgetRequest { data_set, budget }) => {
                let change = GuardedChange::Budget { budget: budget.try_into()? };
                Ok(Self { data_set: Some(DataSetId::new(data_set)?), change, valid_ms })
            }
            Change::SetShare(request) => {
                let SetShare { data_set, tenant, share } = request.try_into()?;
                Ok(Self {
                    data_set: Some(data_set),
                    change: GuardedChange::Share { tenant, share },
                    valid_ms,
                })
            }
            Change::OpenBranch(request) => {
                let change = GuardedChange::from(&OpenBranch::try_from(request)?);
                Ok(Self { data_set: None, change, valid_ms })
            }
        }
    }
}
