//! Membership and leases.

use std::time::Duration;

use proto::model::{JobMark, LeaseGrant, Register};
use proto::{Incarnation, JobId, PROTOCOL_VERSION, Result, ServiceError, WorkerId, pb};
use tokio::time::{Instant, sleep};
use tracing::{error, info};

use crate::cluster::{LeaseReport, Taken};
use crate::coordinator::Coordinator;

/// Between two looks, in a grace period, at who has come.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a heartbeat says.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    pub leases: Vec<LeaseReport>,
    pub standbys: Vec<LeaseReport>,
    pub is_leaving: bool,
    /// Bytes of state and rows that the worker goes through in a second; 0 for unknown.
    pub rate: f64,
}

/// What its answer says.
#[derive(Clone, Debug)]
pub struct Told {
    pub leases: Vec<LeaseGrant>,
    pub standbys: Vec<LeaseGrant>,
    pub is_draining: bool,
    pub may_leave: bool,
}

impl Coordinator {
    pub fn register(&self, request: Register) -> Result<pb::RegisterResponse> {
        check_versions(&request)?;
        let Register { worker, endpoint, local, incarnation, marks, draining, place, .. } = request;
        // Before its leases count as heard of: nothing is bound while what it knows is not.
        self.accept_watermarks(&worker, &marks);
        {
            let mut cluster = self.cluster();
            let now = Instant::now();
            if cluster.members.register(now, &worker, endpoint.clone(), local, incarnation)? {
                cluster.reset_readiness(&worker);
            }
            if let Some(member) = cluster.members.member_mut(&worker) {
                (member.place, member.is_draining) = (place, draining);
            }
        }
        info!(%worker, endpoint, "worker registered");
        self.reconcile_trigger.notify_one();
        Ok(pb::RegisterResponse {
            coordinator_epoch: self.epoch,
            heartbeat_ms: self.settings.heartbeat.as_millis() as u64,
            lease_ttl_ms: self.lease_ttl().as_millis() as u64,
        })
    }

    /// The answer holds all leases that the worker should hold, and all that it should make ready.
    pub fn heartbeat(&self, worker: &WorkerId, incarnation: Incarnation, said: &Heartbeat) -> Result<Told> {
        let now = Instant::now();
        let mut cluster = self.cluster();
        cluster.members.record_heartbeat(now, worker, incarnation)?;
        let mut is_work = false;
        if let Some(member) = cluster.members.member_mut(worker) {
            // What a worker says may be anything.
            member.rate = Some(said.rate).filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(0.0);
            is_work |= std::mem::replace(&mut member.is_leaving, said.is_leaving) != said.is_leaving;
        }
        is_work |= cluster.apply_reports(now, worker, incarnation, &said.leases);
        is_work |= cluster.apply_standby_reports(now, worker, incarnation, &said.standbys);
        cluster.drop_superseded_of(now, said.leases.iter().map(|report| &report.job));
        if is_work {
            self.reconcile_trigger.notify_one();
        }
        Ok(Told {
            leases: cluster.grants(worker, incarnation, self.store_url()),
            standbys: cluster.standby_grants(worker, incarnation, self.store_url()),
            is_draining: cluster.members.live(worker, now).is_some_and(|member| member.is_draining),
            may_leave: cluster.may_leave(worker, now),
        })
    }

    /// The worker's shards go to others, and it gets no new ones. Gives the number of those that it serves still.
    pub fn drain_worker(&self, worker: &WorkerId, cancel: bool) -> Result<u32> {
        let left = self.cluster().set_draining(worker, !cancel)?;
        info!(%worker, cancel, left, "worker told to drain");
        self.reconcile_trigger.notify_one();
        Ok(left)
    }

    /// What a worker has on its own disk of what it released. Says one line of each kind, whatever a worker tells.
    pub fn accept_watermarks(&self, worker: &WorkerId, marks: &[JobMark]) {
        let taken = self.cluster().accept_watermarks(worker, marks);
        for (kind, says) in [
            (Taken::Above, "this worker has released more than the ledger knows"),
            (Taken::TooMany, "this worker tells of more jobs than there is room for: not all are kept"),
        ] {
            let mut of_kind = marks.iter().zip(&taken).filter(|(_, taken)| **taken == kind);
            if let Some((JobMark { job, branch, next_row }, _)) = of_kind.next() {
                error!(%worker, %job, branch, next_row, and_more = of_kind.count(), "{says}");
            }
        }
    }

    /// Until every worker that lives has said what it released, or had the time to.
    pub async fn wait_out_grace_period(&self, job: &JobId) {
        loop {
            let wait = self.cluster().grace_left(job, Instant::now());
            let Some(wait) = wait else { return };
            // An owner may come earlier.
            sleep(wait.min(LOOK_EVERY)).await;
        }
    }

    pub fn deregister(&self, worker: &WorkerId, incarnation: Incarnation) {
        if self.cluster().deregister(worker, incarnation) {
            info!(%worker, "worker left");
            self.reconcile_trigger.notify_one();
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
