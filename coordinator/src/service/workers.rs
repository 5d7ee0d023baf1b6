//! Registration, heartbeats, draining and watermarks of workers.

use std::time::Duration;

use proto::model::{JobMark, LeaseGrant, Register};
use proto::{Incarnation, JobId, PROTOCOL_VERSION, Result, ServiceError, WorkerId, pb};
use tokio::time::{Instant, sleep};
use tracing::{error, info};

use crate::cluster::{LeaseReport, WatermarkVerdict};
use crate::coordinator::Coordinator;

/// The longest time between two looks, in a grace period, at which owners have come back.
const GRACE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A worker's heartbeat.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    pub leases: Vec<LeaseReport>,
    pub standbys: Vec<LeaseReport>,
    pub is_leaving: bool,
    /// Bytes of state and rows that the worker goes through per second; 0 if unknown.
    pub rate: f64,
}

/// The reply to a heartbeat.
#[derive(Clone, Debug)]
pub struct HeartbeatReply {
    /// All leases that the worker should hold.
    pub leases: Vec<LeaseGrant>,
    /// All shards that it should prepare.
    pub standbys: Vec<LeaseGrant>,
    pub is_draining: bool,
    pub may_leave: bool,
}

impl Coordinator {
    /// Registers a worker. Fails if its versions differ or another process holds its name.
    pub fn register(&self, request: Register) -> Result<pb::RegisterResponse> {
        check_versions(&request).inspect_err(|error| {
            self.cluster().members.note_refused(&request.worker, error.to_string(), Instant::now());
        })?;
        let Register { worker, endpoint, local, incarnation, marks, draining, place, .. } = request;
        // Before its leases count as reported, so that nothing is bound before its watermarks are known.
        self.accept_watermarks(&worker, &marks);
        {
            let mut cluster = self.cluster();
            let now = Instant::now();
            if cluster.members.register(now, &worker, endpoint.clone(), local, incarnation)? {
                cluster.reset_readiness(&worker);
            }
            if let Some(member) = cluster.members.member_mut(&worker) {
                member.place = place;
                member.is_draining = draining;
            }
        }
        info!(%worker, endpoint, "worker registered");
        self.trigger_reconcile();
        Ok(pb::RegisterResponse {
            coordinator_epoch: self.epoch(),
            heartbeat_ms: self.settings().heartbeat.as_millis() as u64,
            lease_ttl_ms: self.lease_ttl().as_millis() as u64,
        })
    }

    /// Renews a worker's lease and applies its reports. Fails if the process must register again.
    pub fn heartbeat(
        &self,
        worker: &WorkerId,
        incarnation: Incarnation,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatReply> {
        let now = Instant::now();
        let mut cluster = self.cluster();
        cluster.members.record_heartbeat(now, worker, incarnation)?;
        let mut is_work = false;
        if let Some(member) = cluster.members.member_mut(worker) {
            // A worker may send any number.
            member.rate = Some(heartbeat.rate).filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(0.0);
            is_work |=
                std::mem::replace(&mut member.is_leaving, heartbeat.is_leaving) != heartbeat.is_leaving;
        }
        is_work |= cluster.apply_reports(now, worker, incarnation, &heartbeat.leases);
        is_work |= cluster.apply_standby_reports(now, worker, incarnation, &heartbeat.standbys);
        cluster.drop_superseded_of(now, heartbeat.leases.iter().map(|report| &report.job));
        if is_work {
            self.trigger_reconcile();
        }
        Ok(HeartbeatReply {
            leases: cluster.grants(worker, incarnation, self.store_url()),
            standbys: cluster.standby_grants(worker, incarnation, self.store_url()),
            is_draining: cluster.members.live(worker, now).is_some_and(|member| member.is_draining),
            may_leave: cluster.may_leave(worker, now),
        })
    }

    /// Moves a worker's shards to others and gives it no new ones, or cancels that. Returns the number of shards that
    /// it still serves.
    pub fn drain_worker(&self, worker: &WorkerId, cancel: bool) -> Result<u32> {
        let left = self.cluster().set_draining(worker, !cancel)?;
        info!(%worker, cancel, left, "worker drains, or no longer does");
        self.trigger_reconcile();
        Ok(left)
    }

    /// Takes in the watermarks that a worker keeps on its own disk. Logs at most one line of each kind, whatever it
    /// reports.
    pub fn accept_watermarks(&self, worker: &WorkerId, marks: &[JobMark]) {
        let verdicts = self.cluster().accept_watermarks(worker, marks);
        for (kind, message) in [
            (WatermarkVerdict::Above, "this worker has released more than the ledger knows"),
            (
                WatermarkVerdict::TooMany,
                "this worker reports more jobs than there is room for: not all are kept",
            ),
        ] {
            let mut of_kind = marks.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == kind);
            if let Some((JobMark { job, branch, next_row }, _)) = of_kind.next() {
                error!(%worker, %job, branch, next_row, and_more = of_kind.count(), "{message}");
            }
        }
    }

    /// Waits until every live worker has reported what it released, or has had the time to.
    pub async fn wait_out_grace_period(&self, job: &JobId) {
        loop {
            let wait = self.cluster().grace_left(job, Instant::now());
            let Some(wait) = wait else { return };
            // An owner may come back earlier.
            sleep(wait.min(GRACE_POLL_INTERVAL)).await;
        }
    }

    /// Removes a worker that leaves.
    pub fn deregister(&self, worker: &WorkerId, incarnation: Incarnation) {
        if self.cluster().deregister(worker, incarnation) {
            info!(%worker, "worker left");
            self.trigger_reconcile();
        }
    }
}

fn check_versions(request: &Register) -> Result<()> {
    let expected = PROTOCOL_VERSION;
    let actual = request.protocol_version;
    if expected != actual {
        return Err(ServiceError::ProtocolVersionMismatch { expected, actual });
    }
    let expected = plan::STREAM_VERSION;
    let actual = request.stream_version;
    if expected != actual {
        return Err(ServiceError::StreamVersionMismatch { expected, actual });
    }
    Ok(())
}
