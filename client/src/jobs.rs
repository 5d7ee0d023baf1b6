//! The life of jobs, as the coordinator offers it. None of these calls is repeated by itself.

use proto::{JobId, Result, pb};

use crate::Connections;
use crate::connections::from_status;

#[derive(Clone, Debug)]
pub struct Jobs {
    coordinator: String,
    connections: Connections,
}

/// Sends one request and gives the answer, or the service's own error.
macro_rules! call {
    ($self:ident, $method:ident, $request:expr) => {{
        let answer = $self.connections.jobs(&$self.coordinator)?.$method($request).await;
        answer.map(tonic::Response::into_inner).map_err(from_status)
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

    pub async fn checkpoint(&self, job: &JobId) -> Result<pb::Checkpoint> {
        call!(self, checkpoint_job, pb::CheckpointJobRequest { job: job.to_string() })
    }

    /// One JSON object.
    pub async fn report(&self, job: &JobId, delta: f64) -> Result<String> {
        let request = pb::GetReportRequest { job: job.to_string(), delta };
        call!(self, get_report, request).map(|answer| answer.json)
    }
}
