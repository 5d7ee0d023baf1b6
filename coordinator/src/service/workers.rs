//! Membership and leases.

use proto::model::{JobMark, LeaseGrant, Register};
use proto::{Incarnation, PROTOCOL_VERSION, Result, ServiceError, WorkerId, pb};
use tokio::time::Instant;
use tracing::{error, info};

use crate::cluster::LeaseReport;
use crate::coordinator::Coordinator;

impl Coordinator {
    pub fn register(&self, request: Register) -> Result<pb::RegisterResponse> {
        check_versions(&request)?;
        let Register { worker, endpoint, local, incarnation, marks, .. } = request;
        // Before its leases count as heard of: nothing is bound while what it knows is not.
        self.take_marks(&worker, marks);
        self.cluster().members.register(Instant::now(), &worker, endpoint.clone(), local, incarnation)?;
        info!(%worker, endpoint, "worker registered");
        self.nudge.notify_one();
        Ok(pb::RegisterResponse {
            coordinator_epoch: self.epoch,
            heartbeat_ms: self.settings.heartbeat.as_millis() as u64,
            lease_ttl_ms: self.lease_ttl().as_millis() as u64,
        })
    }

    /// The answer holds all leases that the worker should hold.
    pub fn heartbeat(
        &self,
        worker: &WorkerId,
        incarnation: Incarnation,
        reports: &[LeaseReport],
    ) -> Result<Vec<LeaseGrant>> {
        let now = Instant::now();
        let mut cluster = self.cluster();
        cluster.members.heard(now, worker, incarnation)?;
        if cluster.take_reports(now, worker, incarnation, reports) {
            self.nudge.notify_one();
        }
        Ok(cluster.grants(worker, incarnation, self.store_url()))
    }

    /// What a worker has on its own disk of what it released.
    pub fn take_marks(&self, worker: &WorkerId, marks: Vec<JobMark>) {
        let mut cluster = self.cluster();
        for mark in marks {
            let (job, branch, next_row) = (mark.job.clone(), mark.branch, mark.next_row);
            if cluster.take_mark(mark) {
                error!(%worker, %job, branch, next_row, "this worker has released more than the ledger knows");
            }
        }
    }

    pub fn deregister(&self, worker: &WorkerId, incarnation: Incarnation) {
        if self.cluster().deregister(worker, incarnation) {
            info!(%worker, "worker left");
            self.nudge.notify_one();
        }
    }
}

fn check_versions(request: &Register) -> Result<()> {
    let (expected, actual) = (PROTOCOL_VERSION, request.protocol_version);
    if expected != actual {
        return Err(ServiceError::ProtocolVersionMismatch { expected, actual });
    }
    let (expected, actual) = (plan::STREAM_VERSION, request.stream_version);
    if expected != actual {
        return Err(ServiceError::StreamVersionMismatch { expected, actual });
    }
    Ok(())
}
