//! Requests and grants after the boundary has checked them: messages of [`crate::pb`] with types that can't be wrong.

mod approval_rule;
mod approvals;
mod blocks;
mod data_sets;
mod grants;
mod jobs;
mod marks;
mod named_blocks;
mod rows;
mod workers;

pub use approval_rule::ApprovalRule;
pub use approvals::{ApproveChange, GuardedChange};
pub use blocks::AddBlock;
pub use data_sets::{
    BudgetedAccount, CreateDataSet, NeighbouringRelation, PrivacyBudget, PrivacyUnit, SetShare,
};
pub use grants::{CheckpointPiece, GrantedLeases, LeaseGrant, UnreadableGrant};
pub use jobs::{CreateJob, OpenBranch, PlacementHint};
pub use marks::{JobIdentity, JobMark, WorkerRecord};
pub use named_blocks::named_blocks;
pub use rows::{Bind, Fetch, FetchSlice, Target};
pub use workers::{LocalAccess, Register, WorkerPlace};

use crate::{Result, ServiceError};

fn digest(field: &str, bytes: &[u8]) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| ServiceError::invalid(field, format!("{} bytes", bytes.len()), "32 bytes"))
}
