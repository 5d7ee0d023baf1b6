//! Calls that create, inspect, change and end jobs. None is repeated by itself, except where no coordinator leads: then
//! nothing was done.

use proto::{JobId, Result, SECRET_CURSOR, ServiceError, pb};

use crate::Connections;
use crate::connections::from_status;
use crate::leader::Patience;

/// A client of a cluster's jobs.
#[derive(Clone, Debug)]
pub struct Jobs {
    coordinator: String,
    connections: Connections,
}

/// The first byte of a cursor that a ledger issued: the version of its encoding.
const LEDGER_CURSOR: u8 = 2;

/// Sends one request and returns the answer, or the service's error.
macro_rules! call {
    ($self:ident, $method:ident, $request:expr) => {{
        let request = $request;
        let mut patience = Patience::new();
        loop {
            let answer = $self.connections.jobs(&$self.coordinator)?.$method(request.clone()).await;
            match answer.map(tonic::Response::into_inner).map_err(from_status) {
                Err(ServiceError::NotLeader { .. }) if patience.is_left() => patience.pause().await,
                outcome => break outcome,
            }
        }
    }};
}

impl Jobs {
    pub(crate) fn new(coordinator: String, connections: Connections) -> Self {
        Self { coordinator, connections }
    }

    /// Creates a job.
    pub async fn create(&self, request: pb::CreateJobRequest) -> Result<pb::Job> {
        call!(self, create_job, request)
    }

    /// Returns a job.
    pub async fn get(&self, job: &JobId) -> Result<pb::Job> {
        call!(self, get_job, pb::GetJobRequest { job: job.to_string() })
    }

    /// Returns the jobs that the caller may see.
    pub async fn list(&self) -> Result<Vec<pb::Job>> {
        call!(self, list_jobs, pb::ListJobsRequest {}).map(|answer| answer.jobs)
    }

    /// Ends a job: no further row is bound.
    pub async fn finish(&self, job: &JobId) -> Result<pb::Job> {
        call!(self, finish_job, pb::FinishJobRequest { job: job.to_string() })
    }

    /// Destroys a job.
    pub async fn destroy(&self, job: &JobId) -> Result<pb::DestroyJobResponse> {
        call!(self, destroy_job, pb::DestroyJobRequest { job: job.to_string() })
    }

    /// Splits the job's vector into another number of shards.
    pub async fn reshard(&self, job: &JobId, shards: u32) -> Result<pb::Job> {
        call!(self, reshard_job, pb::ReshardJobRequest { job: job.to_string(), shards })
    }

    /// Sets which workers should serve which coordinates, in place of earlier hints.
    pub async fn place(&self, job: &JobId, hints: Vec<pb::PlacementHint>) -> Result<pb::Job> {
        call!(self, set_placement_hints, pb::SetPlacementHintsRequest { job: job.to_string(), hints })
    }

    /// Writes a checkpoint of the whole vector.
    pub async fn checkpoint(&self, job: &JobId) -> Result<pb::Checkpoint> {
        call!(self, checkpoint_job, pb::CheckpointJobRequest { job: job.to_string() })
    }

    /// Rewinds to `from_row`: rows from `from_row` on have fresh Z. Fails unless `expected_branch` is the current branch.
    pub async fn rewind(&self, job: &JobId, from_row: u64, expected_branch: u64) -> Result<pb::Job> {
        let request = pb::OpenBranchRequest { job: job.to_string(), from_row, expected_branch, parent: None };
        call!(self, open_branch, request)
    }

    /// Returns the whole chain of the job's events.
    pub async fn entries(&self, job: &JobId) -> Result<Vec<pb::Entry>> {
        let mut entries: Vec<pb::Entry> = Vec::new();
        loop {
            // The first may be an archive, with a later index than 0.
            let first = entries.last().map_or(0, |last| last.index + 1);
            let request = pb::ListEntriesRequest { job: job.to_string(), first, most: 0 };
            let page = call!(self, list_entries, request)?.entries;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }

    /// Returns the newest hash of the job's chain of events.
    pub async fn head(&self, job: &JobId) -> Result<pb::Head> {
        call!(self, get_head, pb::GetHeadRequest { job: job.to_string() })
    }

    /// Returns the job's cursor, for a training checkpoint. `next_row` is the training's next row; without it, the
    /// ledger's.
    pub async fn cursor(&self, job: &JobId, next_row: Option<u64>) -> Result<Vec<u8>> {
        let request = pb::GetCursorRequest { job: job.to_string(), next_row };
        call!(self, get_cursor, request).map(|answer| answer.cursor)
    }

    /// Returns whether and how the job can continue at the cursor. It changes nothing.
    pub async fn check_cursor(&self, job: &JobId, cursor: Vec<u8>) -> Result<pb::CursorCheck> {
        check_public(&cursor)?;
        call!(self, check_cursor, pb::CheckCursorRequest { job: job.to_string(), cursor })
    }

    /// Continues at the cursor: on its branch where nothing was bound after it, else on a new branch. With `replay` it
    /// also stays on its branch where all rows after it are bound to exact commitments, which must then be repeated.
    pub async fn resume(&self, job: &JobId, cursor: Vec<u8>, replay: bool) -> Result<pb::Resumed> {
        check_public(&cursor)?;
        call!(self, resume_job, pb::ResumeJobRequest { job: job.to_string(), cursor, replay })
    }

    /// Returns the cluster's health and the jobs that the caller may see, as one JSON object.
    pub async fn status(&self) -> Result<String> {
        call!(self, get_status, pb::GetStatusRequest {}).map(|answer| answer.json)
    }

    /// Returns the job's privacy report as one JSON object.
    pub async fn report(&self, job: &JobId, delta: f64) -> Result<String> {
        let request = pb::GetReportRequest { job: job.to_string(), delta };
        call!(self, get_report, request).map(|answer| answer.json)
    }
}

/// Refuses a cursor that has a training job's secret, which must not leave it, and what may be one with a damaged first
/// byte.
fn check_public(cursor: &[u8]) -> Result<()> {
    let found = match cursor.first() {
        Some(&LEDGER_CURSOR) => return Ok(()),
        Some(&SECRET_CURSOR) => "of a session, with the secret of its commitments",
        _ => "damaged, or of another version",
    };
    let allowed = "one that `rustle job cursor` printed; a session of the Python package resumes at its own";
    Err(ServiceError::invalid("cursor", found, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_session_is_not_sent() {
        let refused = check_public(&[SECRET_CURSOR, 7, 7, 7]).unwrap_err().to_string();
        assert!(refused.contains("secret") && !refused.contains('7'), "{refused}");
        assert_eq!(check_public(&[LEDGER_CURSOR, 7]), Ok(()));
    }

    #[test]
    fn a_damaged_first_byte_keeps_the_secret_here() {
        for first in (0..=u8::MAX).filter(|first| *first != LEDGER_CURSOR) {
            let refused = check_public(&[first, 77, 77]).unwrap_err();
            assert_eq!(refused.kind(), "invalid_argument");
            assert!(!refused.to_string().contains("77"), "{refused}");
        }
        assert!(check_public(&[]).is_err());
    }
}
