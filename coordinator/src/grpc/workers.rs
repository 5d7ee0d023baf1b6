//! `rustle.v1.Workers`.

use std::sync::Arc;

use proto::model::{GrantedLeases, WorkerRecord};
use proto::pb::{self, workers_server::Workers};
use proto::{Incarnation, JobId, KeyProof, MAX_GRANTS_BYTES, Result, ServiceError, WorkerId};
use tonic::{Request, Response, Status};
use tracing::error;

use super::answer;
use super::authorize::{authorize, caller_and_message};
use super::granted::GrantMessages;
use crate::cluster::LeaseReport;
use crate::coordinator::Coordinator;
use crate::service::{Heartbeat, HeartbeatReply};

/// Room for what an answer to a heartbeat holds besides grants.
const OTHER_BYTES: usize = 1 << 10;

pub struct WorkersService(pub Arc<Coordinator>);

fn process(worker: String, incarnation: &[u8]) -> Result<(WorkerId, Incarnation)> {
    Ok((WorkerId::new(worker)?, incarnation.try_into()?))
}

impl WorkersService {
    fn handle_heartbeat(&self, request: pb::HeartbeatRequest) -> Result<pb::HeartbeatResponse> {
        let (worker, incarnation) = process(request.worker, &request.incarnation)?;
        let reports = |leases: Vec<pb::LeaseStatus>| -> Result<Vec<_>> {
            leases.into_iter().map(LeaseReport::try_from).collect()
        };
        let record = WorkerRecord::read(&request.ledger_id, request.highest_epoch, request.marks);
        let heartbeat = Heartbeat {
            leases: reports(request.leases)?,
            standbys: reports(request.standbys)?,
            is_leaving: request.leaving,
            rate: request.bytes_per_second,
            proofs: request.proofs.into_iter().map(KeyProof::try_from).collect::<Result<_>>()?,
        };
        let record = record?;
        let reply = self.0.heartbeat(&worker, incarnation, &heartbeat)?;
        self.0.accept_record(&worker, &record);
        let HeartbeatReply { leases, standbys, is_draining, may_leave } = reply;
        let granted = GrantedLeases { leases, standbys };
        let messages = GrantMessages::within(MAX_GRANTS_BYTES - OTHER_BYTES, granted);
        for (job, bytes) in &messages.left_out {
            if self.0.answer_limits().oversized.is_due(job) {
                error!(job, bytes, %worker, "the grants of this job are too large for one answer to this worker, which serves \
                    none of its shards: have fewer shards, or more workers");
            }
        }
        Ok(pb::HeartbeatResponse {
            coordinator_epoch: self.0.epoch(),
            grants: messages.leases,
            standbys: messages.standbys,
            draining: is_draining,
            may_leave,
            coordinator_key: self.0.release_authority().public_key().as_bytes().to_vec(),
            coordinator_ms: self.0.release_authority().now_ms(),
        })
    }

    fn leave(&self, request: pb::DeregisterRequest) -> Result<pb::DeregisterResponse> {
        let (worker, incarnation) = process(request.worker, &request.incarnation)?;
        self.0.deregister(&worker, incarnation);
        Ok(pb::DeregisterResponse {})
    }

    fn drain(&self, request: pb::DrainWorkerRequest) -> Result<pb::DrainWorkerResponse> {
        let worker = WorkerId::new(request.worker)?;
        Ok(pb::DrainWorkerResponse { shards_left: self.0.drain_worker(&worker, request.cancel)? })
    }
}

#[tonic::async_trait]
impl Workers for WorkersService {
    async fn register(
        &self,
        request: Request<pb::RegisterRequest>,
    ) -> Result<Response<pb::RegisterResponse>, Status> {
        answer(authorize(request)?.try_into().and_then(|request| self.0.register(request)))
    }

    async fn heartbeat(
        &self,
        request: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        answer(self.handle_heartbeat(authorize(request)?))
    }

    async fn deregister(
        &self,
        request: Request<pb::DeregisterRequest>,
    ) -> Result<Response<pb::DeregisterResponse>, Status> {
        answer(self.leave(authorize(request)?))
    }

    async fn drain_worker(
        &self,
        request: Request<pb::DrainWorkerRequest>,
    ) -> Result<Response<pb::DrainWorkerResponse>, Status> {
        answer(self.drain(caller_and_message(request)?.1))
    }

    async fn get_job_plan(
        &self,
        request: Request<pb::GetJobPlanRequest>,
    ) -> Result<Response<pb::JobPlan>, Status> {
        let job = JobId::new(caller_and_message(request)?.1.job).map_err(ServiceError::from);
        answer(job.and_then(|job| self.0.plan_of(&job)))
    }
}
