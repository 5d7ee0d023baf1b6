//! The worker's side of membership: it registers, then sends heartbeats that report its leases and bring the granted ones.
//! A worker that shuts down keeps sending them, up to a deadline, until others have taken over what it serves.

pub mod coordinator_client;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use node::{net::backoff::Backoff, process::readiness::Readiness};
use proto::{
    CoordinatorPublicKey, Incarnation, JobId, MAX_MARKS_PER_MESSAGE, PROTOCOL_VERSION, Result, ServiceError,
    WorkerId,
    model::{LeaseGrant, LocalAccess, WorkerPlace},
    pb,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    leases::{Grants, Leases, PlanSource, Registration},
    token_verifier::TokenVerifier,
};
use coordinator_client::Client;

/// This worker as it registers with the coordinator.
#[derive(Clone, Debug)]
pub struct Member {
    pub worker: WorkerId,
    pub incarnation: Incarnation,
    pub endpoint: String,
    /// The access of processes on this host, where it is not `endpoint`.
    pub local: Option<LocalAccess>,
    pub place: WorkerPlace,
}

/// The settings of a worker's shutdown.
#[derive(Debug)]
pub struct DrainControl {
    /// Cancelled when the worker is to shut down.
    pub shutdown: CancellationToken,
    /// The time that other workers may take to take over its shards.
    pub deadline: Duration,
    /// Cancelled when nothing more may be served.
    pub refusing: CancellationToken,
}

impl DrainControl {
    /// Returns after shutdown: at once where there is nothing to hand over, else at the deadline.
    async fn deadline_passed(&self, leases: &Leases) {
        self.shutdown.cancelled().await;
        if !leases.is_empty() {
            tokio::time::sleep(self.deadline).await;
            tracing::warn!(deadline = ?self.deadline, "leaving with shards that no other worker has taken over in time");
        }
    }
}

/// Why a session ended.
enum SessionEnd {
    /// All shards are handed over.
    MayLeave,
    Failed(ServiceError),
}

/// Fetches plans from the coordinator.
#[derive(Clone, Debug)]
struct CoordinatorPlans(Client);

#[async_trait::async_trait]
impl PlanSource for CoordinatorPlans {
    async fn plan(&self, job: &JobId) -> Result<String> {
        let request = pb::GetJobPlanRequest { job: job.to_string() };
        Ok(self.0.clone().get_job_plan(request).await?.into_inner().plan_toml)
    }
}

/// Runs until shutdown. Fails only where another attempt makes no sense: another protocol or stream version, or a release
/// log that can't be written, so that this worker releases nothing more and others must serve its shards.
pub async fn run(
    client: Client,
    member: Member,
    leases: Arc<Leases>,
    readiness: Readiness,
    drain: DrainControl,
) -> Result<()> {
    let draining = AtomicBool::new(false);
    let deadline_passed = drain.deadline_passed(&leases);
    tokio::pin!(deadline_passed);
    let plans: Arc<dyn PlanSource> = Arc::new(CoordinatorPlans(client.clone()));
    let mut backoff = Backoff::for_workers();
    while !drain.shutdown.is_cancelled() {
        let context = SessionContext { member: &member, leases: &leases, plans: &plans, draining: &draining };
        let session = session(client.clone(), context, &drain.shutdown, &readiness, &mut backoff);
        let error = tokio::select! {
            biased;
            ended = session => match ended {
                SessionEnd::MayLeave => break,
                SessionEnd::Failed(error) => error,
            },
            () = &mut deadline_passed => break,
        };
        if is_final(&error) || leases.release_log.has_failed() {
            return Err(error);
        }
        readiness.set_not_ready(error.to_string());
        tracing::warn!(%error, "no contact with the coordinator; trying again");
        tokio::select! {
            biased;
            () = drain.shutdown.cancelled() => {}
            () = tokio::time::sleep(backoff.next_delay()) => {}
        }
    }
    drain.refusing.cancel();
    deregister(client, &member).await;
    Ok(())
}

fn is_final(error: &ServiceError) -> bool {
    use ServiceError::*;
    matches!(error, ProtocolVersionMismatch { .. } | StreamVersionMismatch { .. } | InvalidArgument { .. })
}

/// The state that all sessions of a worker share.
#[derive(Clone, Copy)]
struct SessionContext<'a> {
    member: &'a Member,
    leases: &'a Arc<Leases>,
    plans: &'a Arc<dyn PlanSource>,
    /// True while an operator drains this worker, which the next coordinator would not know.
    draining: &'a AtomicBool,
}

/// Runs one registration and its heartbeats, until one of them fails.
async fn session(
    mut client: Client,
    context: SessionContext<'_>,
    shutdown: &CancellationToken,
    readiness: &Readiness,
    backoff: &mut Backoff,
) -> SessionEnd {
    let terms = match register(&mut client, context).await {
        Ok(terms) => terms,
        Err(error) => return SessionEnd::Failed(error),
    };
    let challenge: [u8; 32] = match terms.challenge.as_slice().try_into() {
        Ok(challenge) => challenge,
        Err(_) => {
            let found = format!("{} bytes", terms.challenge.len());
            return SessionEnd::Failed(ServiceError::invalid("challenge", found, "32 bytes"));
        }
    };
    let every = Duration::from_millis(terms.heartbeat_ms);
    let ttl = Duration::from_millis(terms.lease_ttl_ms);
    loop {
        let began = Instant::now();
        let is_leaving = shutdown.is_cancelled();
        let outcome =
            match tokio::time::timeout(ttl, heartbeat(&mut client, context, &challenge, is_leaving, ttl))
                .await
            {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => return SessionEnd::Failed(error),
                Err(_) => {
                    let what = format!("the coordinator (silent for {ttl:?})");
                    return SessionEnd::Failed(ServiceError::Unavailable { what });
                }
            };
        if is_leaving && outcome.may_leave {
            return SessionEnd::MayLeave;
        }
        // A rolling restart waits for each worker to have its shards again.
        match context.leases.restoring() {
            0 => readiness.set_ready(),
            shards => readiness.set_not_ready(format!("restoring {shards} shards")),
        }
        backoff.reset();
        context.leases.record_gauges();
        // The coordinator waits for these reports before it routes clients here, or before it binds.
        if outcome.has_taken_over || outcome.has_more_marks {
            continue;
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if !is_leaving => {}
            () = tokio::time::sleep(every.saturating_sub(began.elapsed())) => {}
        }
    }
}

async fn register(client: &mut Client, context: SessionContext<'_>) -> Result<pb::RegisterResponse> {
    let SessionContext { member, leases, draining, .. } = context;
    let WorkerPlace { host, labels, memory_bytes } = member.place.clone();
    leases.release_log.forget_reported();
    let marks = leases.release_log.unreported();
    let request = pb::RegisterRequest {
        worker: member.worker.to_string(),
        endpoint: member.endpoint.clone(),
        local: member.local.clone().map(Into::into),
        protocol_version: PROTOCOL_VERSION,
        stream_version: noise_kernel::STREAM_VERSION,
        incarnation: member.incarnation.0.to_vec(),
        marks: marks.iter().cloned().map(Into::into).collect(),
        draining: draining.load(Ordering::Relaxed),
        host,
        labels,
        memory_bytes: memory_bytes.unwrap_or(0),
    };
    let terms = client.register(request).await?.into_inner();
    leases.release_log.mark_reported(&marks);
    leases.release_log.observe_epoch(terms.coordinator_epoch).await?;
    tracing::info!(worker = %member.worker, coordinator_epoch = terms.coordinator_epoch, "registered");
    Ok(terms)
}

/// The outcome of a heartbeat.
struct HeartbeatOutcome {
    may_leave: bool,
    has_taken_over: bool,
    has_more_marks: bool,
}

async fn heartbeat(
    client: &mut Client,
    context: SessionContext<'_>,
    challenge: &[u8; 32],
    is_leaving: bool,
    ttl: Duration,
) -> Result<HeartbeatOutcome> {
    let SessionContext { member, leases, plans, draining } = context;
    let requested_at = Instant::now();
    let registration = Registration { worker: &member.worker, incarnation: &member.incarnation, challenge };
    let marks = leases.release_log.unreported();
    let reported = marks.clone();
    let request = pb::HeartbeatRequest {
        worker: member.worker.to_string(),
        incarnation: member.incarnation.0.to_vec(),
        leases: leases.status(),
        marks: marks.into_iter().map(Into::into).collect(),
        standbys: leases.standby_status(),
        leaving: is_leaving,
        bytes_per_second: leases.limits.throughput.rate(),
        proofs: leases.key_proofs(&registration),
    };
    let response = client.heartbeat(request).await?.into_inner();
    let grants = |grants: Vec<pb::LeaseGrant>| -> Result<Vec<_>> {
        grants.into_iter().map(LeaseGrant::try_from).collect()
    };
    let granted = Grants { leases: grants(response.grants)?, standbys: grants(response.standbys)? };
    leases.release_log.mark_reported(&reported);
    let key = CoordinatorPublicKey::from_slice(&response.coordinator_key)?;
    let verifier = TokenVerifier {
        key,
        epoch: response.coordinator_epoch,
        coordinator_ms: response.coordinator_ms,
        requested_at,
        known: leases.known_signatures.clone(),
    };
    let branches = granted.leases.iter().map(|grant| (grant.job.clone(), grant.branch())).collect();
    // Before anything is served under them: an older coordinator or branch is refused here.
    leases.release_log.clone().observe(verifier.epoch, branches).await?;
    draining.store(response.draining, Ordering::Relaxed);
    let has_taken_over = leases.apply(granted, verifier, ttl, requested_at, plans);
    let has_more_marks = reported.len() >= MAX_MARKS_PER_MESSAGE;
    Ok(HeartbeatOutcome { may_leave: response.may_leave, has_taken_over, has_more_marks })
}

async fn deregister(mut client: Client, member: &Member) {
    let request = pb::DeregisterRequest {
        worker: member.worker.to_string(),
        incarnation: member.incarnation.0.to_vec(),
    };
    let sent = tokio::time::timeout(Duration::from_secs(2), client.deregister(request)).await;
    if let Ok(Err(error)) = sent {
        tracing::warn!(%error, "could not deregister from the coordinator");
    }
}
