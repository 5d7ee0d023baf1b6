//! Registration, heartbeats and draining of workers.

use node::process::rng;
use proto::model::{LeaseGrant, Register};
use proto::{Incarnation, KeyProof, PROTOCOL_VERSION, Result, ServiceError, WorkerId, pb};
use tokio::time::Instant;
use tracing::info;

use crate::cluster::{AbsenceCause, LeaseReport};
use crate::coordinator::Coordinator;

/// A worker's heartbeat.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    pub leases: Vec<LeaseReport>,
    pub standbys: Vec<LeaseReport>,
    pub is_leaving: bool,
    /// Bytes of state and rows that the worker goes through per second; 0 if unknown.
    pub rate: f64,
    pub proofs: Vec<KeyProof>,
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
    /// Registers a worker. Fails if its versions differ, another process holds its name, or the ledger is a copy, whose workers
    /// may be those of the original.
    pub fn register(&self, request: Register) -> Result<pb::RegisterResponse> {
        let note = |cause| self.cluster().members.note_refused(&request.worker, cause, Instant::now());
        check_versions(&request).inspect_err(|error| note(AbsenceCause::Refused(error.to_string())))?;
        self.check_not_copied().inspect_err(|_| note(AbsenceCause::LedgerInDoubt))?;
        let challenge = *rng::nonce().map_err(ServiceError::internal)?.as_bytes();
        let Register { worker, endpoint, local, incarnation, record, draining, place, .. } = request;
        let now = Instant::now();
        let (ledger, heard) = {
            let mut cluster = self.cluster();
            if cluster.members.register(now, &worker, endpoint.clone(), local, incarnation, challenge)? {
                cluster.reset_readiness(&worker);
            }
            if let Some(member) = cluster.members.member_mut(&worker) {
                member.place = place;
                member.is_draining = draining;
            }
            // Under one lock with the registration: nothing is bound before what the worker knows is heard.
            (cluster.ledger(), cluster.accept_record(&worker, &record, true, now))
        };
        self.report_heard(&worker, &record, &heard);
        if record.ledger == Some(ledger) {
            info!(%worker, endpoint, "worker registered");
        }
        self.trigger_reconcile();
        Ok(pb::RegisterResponse {
            coordinator_epoch: self.epoch(),
            heartbeat_ms: self.settings().heartbeat.as_millis() as u64,
            lease_ttl_ms: self.lease_ttl().as_millis() as u64,
            challenge: challenge.to_vec(),
            ledger_id: ledger.as_bytes().to_vec(),
        })
    }

    fn check_not_copied(&self) -> Result<()> {
        self.cluster().copied.clone().map_or(Ok(()), Err)
    }

    /// Renews a worker's lease and applies its reports. Fails if the process must register again.
    pub fn heartbeat(
        &self,
        worker: &WorkerId,
        incarnation: Incarnation,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatReply> {
        let now = Instant::now();
        // Checked outside of the lock: after a start, all workers prove what they have.
        let open = self.cluster().open_proofs(worker, &heartbeat.proofs);
        let checked = open.map(|open| open.check(worker, &incarnation));
        let mut cluster = self.cluster();
        if let Some(checked) = checked {
            cluster.settle_proofs(worker, incarnation, checked)?;
        }
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

    /// Removes a worker that leaves.
    pub fn deregister(&self, worker: &WorkerId, incarnation: Incarnation) {
        if self.cluster().deregister(worker, incarnation, Instant::now()) {
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
