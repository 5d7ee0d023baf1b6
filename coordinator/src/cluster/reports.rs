//! What workers say of their leases, checked.

use proto::{JobId, Result, ServiceError, pb};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedState {
    Restoring,
    Ready,
    Failed,
}

#[derive(Clone, Debug)]
pub struct LeaseReport {
    pub job: JobId,
    pub shard: u32,
    pub epoch: u64,
    pub state: ReportedState,
    pub next_row: u64,
    pub state_bytes: u64,
    pub ahead_bytes: u64,
    pub released: u64,
    pub key_commitment: Vec<u8>,
    pub message: String,
}

impl TryFrom<pb::LeaseStatus> for LeaseReport {
    type Error = ServiceError;
    fn try_from(status: pb::LeaseStatus) -> Result<Self> {
        let state = match status.state() {
            pb::LeaseState::Restoring => ReportedState::Restoring,
            pb::LeaseState::Ready => ReportedState::Ready,
            pb::LeaseState::Failed => ReportedState::Failed,
            pb::LeaseState::Unspecified => {
                return Err(ServiceError::invalid(
                    "leases.state",
                    status.state,
                    "restoring, ready or failed",
                ));
            }
        };
        Ok(Self {
            job: JobId::new(status.job)?,
            shard: status.shard,
            epoch: status.epoch,
            state,
            next_row: status.next_row,
            state_bytes: status.state_bytes,
            ahead_bytes: status.ahead_bytes,
            released: status.released,
            key_commitment: status.key_commitment,
            message: status.message,
        })
    }
}
