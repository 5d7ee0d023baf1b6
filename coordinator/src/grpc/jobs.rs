//! `rustle.v1.Jobs`.

use std::sync::Arc;

use node::admission::ResponseReservation;
use node::auth::{Access, CallerRole, ClientKey};
use proto::model::PlacementHint;
use proto::pb::{self, jobs_server::Jobs};
use proto::{JobId, Result, ServiceError};
use tonic::{Request, Response, Status};

use super::authorize::{authorize, caller_and_message, requester_of};
use super::{answer, error_to_status, refusal_to_status, run_detached};
use crate::coordinator::Coordinator;
use crate::quotas::{Rate, Requester};

/// Bytes that an entry takes in memory besides its event.
const ENTRY_OVERHEAD: u64 = 256;

pub struct JobsService(pub Arc<Coordinator>);

impl JobsService {
    /// Takes one of the rate that a request about the job counts for.
    fn take(&self, requester: &Requester, job: String, rate: Rate) -> Result<JobId, Status> {
        let job = named(job).and_then(|job| self.0.take_quota(requester, &job, rate).map(|()| job));
        job.map_err(error_to_status)
    }

    /// Checks that a caller of a tenant changes a job of its own: before the request counts for the job's rates.
    async fn check_tenant(&self, job: &str) -> Result<(), Status> {
        let job = named(job.to_owned()).map_err(error_to_status)?;
        self.0.check_tenant(&job).await.map_err(error_to_status)
    }

    async fn check_spender(&self, job: &str, is_of_all_jobs: bool) -> Result<(), Status> {
        let job = named(job.to_owned()).map_err(error_to_status)?;
        self.0.check_spender(&job, is_of_all_jobs).await.map_err(error_to_status)
    }
}

/// Returns whether the caller is a trainer that is limited to no job, and no operator.
fn is_trainer_of_all_jobs<M>(request: &Request<M>) -> bool {
    // No job has an empty name, so that what covers it covers all jobs.
    let covers_all = |access: &Access| access.has_role(CallerRole::Trainer) && access.can_see("");
    let is_such = |access: &Access| covers_all(access) && !access.has_role(CallerRole::Operator);
    request.extensions().get::<Access>().is_some_and(is_such)
}

fn named(job: String) -> Result<JobId> {
    JobId::new(job).map_err(ServiceError::from)
}

#[tonic::async_trait]
impl Jobs for JobsService {
    async fn create_job(&self, request: Request<pb::CreateJobRequest>) -> Result<Response<pb::Job>, Status> {
        let coordinator = self.0.clone();
        let request = authorize(request)?;
        run_detached(async move { coordinator.create_job(request.try_into()?).await }).await
    }

    async fn get_job(&self, request: Request<pb::GetJobRequest>) -> Result<Response<pb::Job>, Status> {
        answer(named(authorize(request)?.job).and_then(|job| self.0.job_message(&job)))
    }

    async fn list_jobs(
        &self,
        request: Request<pb::ListJobsRequest>,
    ) -> Result<Response<pb::ListJobsResponse>, Status> {
        let (admitted, _) = caller_and_message(request)?;
        let jobs = self.0.list_jobs().into_iter().filter(|job| admitted.can_see(&job.job));
        answer(Ok(pb::ListJobsResponse { jobs: jobs.collect() }))
    }

    async fn finish_job(&self, request: Request<pb::FinishJobRequest>) -> Result<Response<pb::Job>, Status> {
        let coordinator = self.0.clone();
        let requester = requester_of(&request);
        let job = self.take(&requester, authorize(request)?.job, Rate::LogLines)?;
        run_detached(async move { coordinator.finish_job(job).await }).await
    }

    async fn destroy_job(
        &self,
        request: Request<pb::DestroyJobRequest>,
    ) -> Result<Response<pb::DestroyJobResponse>, Status> {
        let coordinator = self.0.clone();
        let job = authorize(request)?.job;
        run_detached(async move { coordinator.destroy_job(named(job)?).await }).await
    }

    async fn reshard_job(
        &self,
        request: Request<pb::ReshardJobRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let coordinator = self.0.clone();
        let requester = requester_of(&request);
        let pb::ReshardJobRequest { job, shards } = authorize(request)?;
        let job = self.take(&requester, job, Rate::Checkpoints)?;
        run_detached(async move { coordinator.reshard_job(job, shards).await }).await
    }

    async fn set_placement_hints(
        &self,
        request: Request<pb::SetPlacementHintsRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let requester = requester_of(&request);
        let pb::SetPlacementHintsRequest { job, hints } = authorize(request)?;
        self.check_tenant(&job).await?;
        let hints: Result<Vec<_>> = hints.into_iter().map(PlacementHint::try_from).collect();
        let job = self.take(&requester, job, Rate::Placements)?;
        answer(hints.and_then(|hints| self.0.set_placement_hints(&job, hints)))
    }

    async fn checkpoint_job(
        &self,
        request: Request<pb::CheckpointJobRequest>,
    ) -> Result<Response<pb::Checkpoint>, Status> {
        let coordinator = self.0.clone();
        let requester = requester_of(&request);
        let job = authorize(request)?.job;
        self.check_tenant(&job).await?;
        let job = self.take(&requester, job, Rate::Checkpoints)?;
        // A caller that leaves while another checkpoint is written has requested none.
        let turn = coordinator.turn_to_checkpoint(&job).await.map_err(error_to_status)?;
        run_detached(async move { coordinator.write_in_turn(turn, &job).await }).await
    }

    async fn open_branch(
        &self,
        request: Request<pb::OpenBranchRequest>,
    ) -> Result<Response<pb::Job>, Status> {
        let coordinator = self.0.clone();
        let requester = requester_of(&request);
        let is_of_all_jobs = is_trainer_of_all_jobs(&request);
        let request = authorize(request)?;
        self.check_spender(&request.job, is_of_all_jobs).await?;
        self.take(&requester, request.job.clone(), Rate::Branches)?;
        run_detached(async move { coordinator.open_branch(request.try_into()?).await }).await
    }

    async fn list_entries(
        &self,
        request: Request<pb::ListEntriesRequest>,
    ) -> Result<Response<pb::ListEntriesResponse>, Status> {
        let client = request.extensions().get::<ClientKey>().cloned();
        let entries = self.0.entries(authorize(request)?).await.map_err(error_to_status)?;
        // A caller that does not read its answers must not fill this process's memory.
        let bytes = entries.entries.iter().map(|entry| entry.event.len() as u64 + ENTRY_OVERHEAD).sum();
        let hold = client
            .map(|client| self.0.answer_limits().bytes.take(&client, bytes))
            .transpose()
            .map_err(refusal_to_status)?;
        let mut response = Response::new(entries);
        if let Some(hold) = hold {
            response.extensions_mut().insert(ResponseReservation(Arc::new(hold)));
        }
        Ok(response)
    }

    async fn get_head(&self, request: Request<pb::GetHeadRequest>) -> Result<Response<pb::Head>, Status> {
        let job = authorize(request)?.job;
        answer(async { self.0.head(named(job)?).await }.await)
    }

    async fn get_cursor(
        &self,
        request: Request<pb::GetCursorRequest>,
    ) -> Result<Response<pb::Cursor>, Status> {
        let pb::GetCursorRequest { job, next_row } = authorize(request)?;
        answer(async { self.0.job_cursor(named(job)?, next_row).await }.await)
    }

    async fn check_cursor(
        &self,
        request: Request<pb::CheckCursorRequest>,
    ) -> Result<Response<pb::CursorCheck>, Status> {
        let pb::CheckCursorRequest { job, cursor } = authorize(request)?;
        answer(async { self.0.check_cursor(named(job)?, &cursor).await }.await)
    }

    async fn resume_job(
        &self,
        request: Request<pb::ResumeJobRequest>,
    ) -> Result<Response<pb::Resumed>, Status> {
        let coordinator = self.0.clone();
        let requester = requester_of(&request);
        let is_of_all_jobs = is_trainer_of_all_jobs(&request);
        let pb::ResumeJobRequest { job, cursor, replay } = authorize(request)?;
        // It may open a branch.
        self.check_spender(&job, is_of_all_jobs).await?;
        let job = self.take(&requester, job, Rate::Branches)?;
        run_detached(async move { coordinator.resume(job, &cursor, replay).await }).await
    }

    async fn get_status(
        &self,
        request: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::ClusterStatus>, Status> {
        let (admitted, _) = caller_and_message(request)?;
        self.0.meter_now().await;
        let status = self.0.status_for(|job| admitted.can_see(job));
        answer(Ok(pb::ClusterStatus { json: status.to_string() }))
    }

    async fn get_report(
        &self,
        request: Request<pb::GetReportRequest>,
    ) -> Result<Response<pb::Report>, Status> {
        let client = request.extensions().get::<ClientKey>().cloned();
        let pb::GetReportRequest { job, delta } = authorize(request)?;
        let permit = client
            .map(|client| self.0.answer_limits().reports.take(&client, 1))
            .transpose()
            .map_err(refusal_to_status)?;
        let report = async { self.0.report(named(job)?, delta, permit).await }.await;
        answer(report.map(|report| pb::Report { json: report.to_string() }))
    }
}
