//! The rule on which changes of a data set take two persons.

use serde::{Deserialize, Serialize};

use crate::pb;

/// Which changes of a data set take the consent of a second person: raising its budget or a share, and rewinds beyond a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// The branches of each job that are opened without.
    pub free_rewinds: u32,
}

impl From<pb::ApprovalRule> for ApprovalRule {
    fn from(rule: pb::ApprovalRule) -> Self {
        Self { free_rewinds: rule.free_rewinds }
    }
}

impl From<ApprovalRule> for pb::ApprovalRule {
    fn from(rule: ApprovalRule) -> Self {
        Self { free_rewinds: rule.free_rewinds }
    }
}
