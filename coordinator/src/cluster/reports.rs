//! Workers' reports on their leases, checked.

use std::time::Duration;

use proto::{JobId, Result, ServiceError, pb};

/// The state of a shard on the worker that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedState {
    Restoring,
    Ready,
    Failed,
}

/// A worker's report on one shard.
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
    /// The time that one row takes; zero before the first.
    pub row_time: Duration,
    /// The time that requests have waited with no row made.
    pub stalled: Duration,
}

/// Returns the duration, or zero: a worker may send any number.
fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
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
            row_time: time(status.row_seconds),
            stalled: time(status.stalled_seconds),
        })
    }
}
