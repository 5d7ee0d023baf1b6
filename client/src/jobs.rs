//! The life of jobs, as the coordinator offers it. None of these calls is repeated by itself, but where no coordinator
//! leads: then nothing was done.

use std::time::Duration;

use proto::{JobId, Result, ServiceError, pb};
use tokio::time::{Instant, sleep};

use crate::connections::from_status;
use crate::{Connections, Delays};

#[derive(Clone, Debug)]
pub struct Jobs {
    coordinator: String,
    connections: Connections,
}

/// How long a leader is waited for: longer than an election takes.
const FOR_A_LEADER: Duration = Duration::from_secs(15);

/// Sends one request and gives the answer, or the service's own error.
macro_rules! call {
    ($self:ident, $method:ident, $request:expr) => {{
        let request = $request;
        let mut delays = Delays::default();
        let until = Instant::now() + FOR_A_LEADER;
        loop {
            let answer = $self.connections.jobs(&$self.coordinator)?.$method(request.clone()).await;
            match answer.map(tonic::Response::into_inner).map_err(from_status) {
                Err(ServiceError::NotLeader { .. }) if Instant::now() < until => {
                    sleep(delays.next_delay()).await
                }
                outcome => break outcome,
            }
        }
    }};
}

impl Jobs {
    pub(crate) fn new(coordinator: String, connections: Connections) -> Self {
        Self { coordinator, connections }
    }

    pub async fn create(&self, request: pb::CreateJobRequest) -> Result<pb::Job> {
        call!(self, create_job, request)
    }

    pub async fn get(&self, job: &JobId) -> Result<pb::Job> {
        call!(self, get_job, pb::GetJobRequest { job: job.to_string() })
    }

    pub async fn list(&self) -> Result<Vec<pb::Job>> {
        call!(self, list_jobs, pb::ListJobsRequest {}).map(|answer| answer.jobs)
    }

    pub async fn finish(&self, job: &JobId) -> Result<pb::Job> {
        call!(self, finish_job, pb::FinishJobRequest { job: job.to_string() })
    }

    pub async fn destroy(&self, job: &JobId) -> Result<pb::DestroyJobResponse> {
        call!(self, destroy_job, pb::DestroyJobRequest { job: job.to_string() })
    }

    pub async fn reshard(&self, job: &JobId, shards: u32) -> Result<pb::Job> {
        call!(self, reshard_job, pb::ReshardJobRequest { job: job.to_string(), shards })
    }

    /// Which workers should be near which coordinates, in place of what was wished before.
    pub async fn place(&self, job: &JobId, hints: Vec<pb::PlacementHint>) -> Result<pb::Job> {
        call!(self, set_placement_hints, pb::SetPlacementHintsRequest { job: job.to_string(), hints })
    }

    pub async fn checkpoint(&self, job: &JobId) -> Result<pb::Checkpoint> {
        call!(self, checkpoint_job, pb::CheckpointJobRequest { job: job.to_string() })
    }

    /// Goes back to `from_row`: rows from there on have fresh Z. Refused unless `expected_branch` is the current one.
    pub async fn rewind(&self, job: &JobId, from_row: u64, expected_branch: u64) -> Result<pb::Job> {
        let request = pb::OpenBranchRequest { job: job.to_string(), from_row, expected_branch, parent: None };
        call!(self, open_branch, request)
    }

    /// The whole chain of the job's events.
    pub async fn entries(&self, job: &JobId) -> Result<Vec<pb::Entry>> {
        let mut entries: Vec<pb::Entry> = Vec::new();
        loop {
            let first = entries.len() as u64;
            let request = pb::ListEntriesRequest { job: job.to_string(), first, most: 0 };
            let page = call!(self, list_entries, request)?.entries;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }

    pub async fn head(&self, job: &JobId) -> Result<pb::Head> {
        call!(self, get_head, pb::GetHeadRequest { job: job.to_string() })
    }

    /// The job's place, for a training checkpoint. `next_row`: where the training stands; the ledger's next row where
    /// not given.
    pub async fn cursor(&self, job: &JobId, next_row: Option<u64>) -> Result<Vec<u8>> {
        let request = pb::GetCursorRequest { job: job.to_string(), next_row };
        call!(self, get_cursor, request).map(|answer| answer.cursor)
    }

    /// Whether and how the job can go on at the cursor. Changes nothing.
    pub async fn check_cursor(&self, job: &JobId, cursor: Vec<u8>) -> Result<pb::CursorCheck> {
        call!(self, check_cursor, pb::CheckCursorRequest { job: job.to_string(), cursor })
    }

    /// Goes on at the cursor: on its branch where nothing was bound behind it, else on a new one. With `replay` on
    /// its branch too where all rows behind it are bound to exact commitments, which must then come again.
    pub async fn resume(&self, job: &JobId, cursor: Vec<u8>, replay: bool) -> Result<pb::Resumed> {
        call!(self, resume_job, pb::ResumeJobRequest { job: job.to_string(), cursor, replay })
    }

    /// One JSON object.
    pub async fn report(&self, job: &JobId, delta: f64) -> Result<String> {
        let request = pb::GetReportRequest { job: job.to_string(), delta };
        call!(self, get_report, request).map(|answer| answer.json)
    }
}
