//! Requests of trainers about jobs as a whole.

use super::{BudgetedAccount, digest};
use crate::{CoordinateRange, JobId, Result, ServiceError, pb};

/// A request to create a job. The plan's text is checked by the crate `plan`.
#[derive(Clone, Debug)]
pub struct CreateJob {
    /// The job's name.
    pub job: JobId,
    /// The plan's text.
    pub plan_toml: String,
    /// Coordinates of the vector; `None` where the plan's layout determines them.
    pub dimension: Option<u64>,
    /// Number of shards; `None` lets the coordinator choose.
    pub shards: Option<u32>,
    /// Commitment to the job's key.
    pub key_commitment: [u8; 32],
    /// The digest that the caller expects the plan to have.
    pub plan_digest: Option<[u8; 32]>,
    /// The data set that the job draws on; `None` for a job outside of every budget.
    pub account: Option<BudgetedAccount>,
}

impl TryFrom<pb::CreateJobRequest> for CreateJob {
    type Error = ServiceError;
    fn try_from(request: pb::CreateJobRequest) -> Result<Self> {
        Ok(Self {
            job: JobId::new(request.job)?,
            plan_toml: request.plan_toml,
            dimension: (request.dimension > 0).then_some(request.dimension),
            shards: (request.shards > 0).then_some(request.shards),
            key_commitment: digest("key_commitment", &request.key_commitment)?,
            plan_digest: if request.plan_digest.is_empty() {
                None
            } else {
                Some(digest("plan_digest", &request.plan_digest)?)
            },
            account: request.account.map(BudgetedAccount::try_from).transpose()?,
        })
    }
}

/// A wish for workers near a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementHint {
    /// The coordinates.
    pub range: CoordinateRange,
    /// A worker's name, a label of workers, or the boot id of a host.
    pub near: String,
}

impl TryFrom<pb::PlacementHint> for PlacementHint {
    type Error = ServiceError;
    fn try_from(hint: pb::PlacementHint) -> Result<Self> {
        let pb::PlacementHint { range, near } = hint;
        if !(1..=128).contains(&near.len()) {
            let allowed = "1 to 128 bytes: a worker's name, a label (key=value) or a host's boot id";
            return Err(ServiceError::invalid("hints.near", format!("{} bytes", near.len()), allowed));
        }
        Ok(Self { range: range.try_into()?, near })
    }
}

/// A request for fresh Z from a row on.
#[derive(Clone, Debug)]
pub struct OpenBranch {
    /// The job.
    pub job: JobId,
    /// The first row of the new branch.
    pub from_row: u64,
    /// The branch that the caller believes to be the current one.
    pub expected_branch: u64,
    /// The branch whose rows before `from_row` are kept; `None` for the current one.
    pub parent: Option<u64>,
}

impl TryFrom<pb::OpenBranchRequest> for OpenBranch {
    type Error = ServiceError;
    fn try_from(request: pb::OpenBranchRequest) -> Result<Self> {
        let pb::OpenBranchRequest { job, from_row, expected_branch, parent } = request;
        Ok(Self { job: JobId::new(job)?, from_row, expected_branch, parent })
    }
}
