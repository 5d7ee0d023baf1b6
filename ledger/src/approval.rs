//! The ledger's records of approvals: a person's consent to one change of a data set.

use proto::{
    PersonId,
    model::{ApprovalRule, GuardedChange},
};
use serde::{Deserialize, Serialize};

/// A person's consent to one change, which another person may make once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The change.
    pub change: GuardedChange,
    /// The person who consents.
    pub approver: PersonId,
    /// The end of the approval, in milliseconds since 1970.
    pub until_ms: u64,
}

/// What of a data set takes an approval, and the approvals that wait: one at most for each subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approvals {
    /// The rule, which never changes.
    pub rule: ApprovalRule,
    /// The approvals that wait, oldest first. Those that have ended are among them until others take their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Approval>,
}

impl From<ApprovalRule> for Approvals {
    fn from(rule: ApprovalRule) -> Self {
        Self { rule, pending: Vec::new() }
    }
}
