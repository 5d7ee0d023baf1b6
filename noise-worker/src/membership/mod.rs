//! The worker's side of membership: it registers, then sends heartbeats that report its leases and bring the granted ones.
//! A worker that shuts down keeps sending them, up to a deadline, until others have taken over what it serves.

pub mod coordinator_client;
mod drain_control;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use node::{net::backoff::Backoff, process::readiness::Readiness};
use proto::{
    CoordinatorPublicKey, Incarnation, JobId, MAX_MARKS_PER_MESSAGE, Nonce, PROTOCOL_VERSION, Result,
    ServiceError, WorkerId,
    model::{GrantedLeases, LocalAccess, WorkerPlace, WorkerRecord},
    pb,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    leases::{Leases, PlanSource, Registration, log_unreadable},
    token_verifier::TokenVerifier,
};
use coordinator_client::Client;
pub use drain_control::DrainControl;

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
    let session = match register(&mut client, context).await {
        Ok(session) => session,
        Err(error) => return SessionEnd::Failed(error),
    };
    let ttl = session.ttl;
    let mut newest_ms = 0;
    loop {
        let began = Instant::now();
        let is_leaving = shutdown.is_cancelled();
        let answered = heartbeat(&mut client, context, is_leaving, &session);
        let outcome = match tokio::time::timeout(ttl, answered).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => return SessionEnd::Failed(error),
            Err(_) => {
                let what = format!("the coordinator (silent for {ttl:?})");
                return SessionEnd::Failed(ServiceError::Unavailable { what });
            }
        };
        // Its clock never jumps: this is its memory of earlier, restored with the machine. It must hear everything again.
        if outcome.coordinator_ms < newest_ms {
            let what = "the coordinator as it was (its clock has gone back)".to_owned();
            return SessionEnd::Failed(ServiceError::Unavailable { what });
        }
        newest_ms = outcome.coordinator_ms;
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
            () = tokio::time::sleep(session.heartbeat.saturating_sub(began.elapsed())) => {}
        }
    }
}

/// What a registration settled: the coordinator's ledger, and its terms.
struct Session {
    ledger: Nonce,
    /// What proofs of keys are signatures over.
    challenge: [u8; 32],
    heartbeat: Duration,
    ttl: Duration,
}

/// The registrations after which a coordinator's ledger should be known: one more than it takes where it changes once.
const MAX_REGISTRATIONS: usize = 3;

/// Registers, with all that is on record of the coordinator's ledger. Where that is not the one that this worker expected,
/// it learns so, and registers again.
async fn register(client: &mut Client, context: SessionContext<'_>) -> Result<Session> {
    let SessionContext { member, leases, .. } = context;
    let log = &leases.release_log;
    log.forget_reported();
    let mut ledger = log.latest_ledger();
    for _ in 0..MAX_REGISTRATIONS {
        let record = ledger.map(|ledger| log.unreported(ledger)).unwrap_or_default();
        let terms = client.register(registration(context, &record)).await?.into_inner();
        let of_coordinator = Nonce::from_slice("ledger_id", &terms.ledger_id)?;
        if ledger != Some(of_coordinator) {
            ledger = Some(of_coordinator);
            continue;
        }
        log.mark_reported(&record);
        log.observe_epoch(of_coordinator, terms.coordinator_epoch).await?;
        tracing::info!(worker = %member.worker, coordinator_epoch = terms.coordinator_epoch, "registered");
        return Ok(Session {
            ledger: of_coordinator,
            challenge: *Nonce::from_slice("challenge", &terms.challenge)?.as_bytes(),
            heartbeat: Duration::from_millis(terms.heartbeat_ms),
            ttl: Duration::from_millis(terms.lease_ttl_ms),
        });
    }
    Err(ServiceError::Unavailable { what: "the coordinator (its ledger changes with every answer)".into() })
}

fn registration(context: SessionContext<'_>, record: &WorkerRecord) -> pb::RegisterRequest {
    let SessionContext { member, draining, .. } = context;
    let WorkerPlace { host, labels, memory_bytes } = member.place.clone();
    pb::RegisterRequest {
        worker: member.worker.to_string(),
        endpoint: member.endpoint.clone(),
        local: member.local.clone().map(Into::into),
        protocol_version: PROTOCOL_VERSION,
        stream_version: noise_kernel::STREAM_VERSION,
        incarnation: member.incarnation.0.to_vec(),
        marks: record.marks.iter().cloned().map(Into::into).collect(),
        draining: draining.load(Ordering::Relaxed),
        host,
        labels,
        memory_bytes: memory_bytes.unwrap_or(0),
        ledger_id: record.ledger_id(),
        highest_epoch: record.highest_epoch,
    }
}

/// The outcome of a heartbeat.
struct HeartbeatOutcome {
    may_leave: bool,
    has_taken_over: bool,
    has_more_marks: bool,
    /// The coordinator's clock, in milliseconds.
    coordinator_ms: u64,
}

async fn heartbeat(
    client: &mut Client,
    context: SessionContext<'_>,
    is_leaving: bool,
    session: &Session,
) -> Result<HeartbeatOutcome> {
    let SessionContext { member, leases, plans, draining } = context;
    let requested_at = Instant::now();
    let registration = Registration {
        worker: &member.worker,
        incarnation: &member.incarnation,
        challenge: &session.challenge,
    };
    let record = leases.release_log.unreported(session.ledger);
    let request = pb::HeartbeatRequest {
        worker: member.worker.to_string(),
        incarnation: member.incarnation.0.to_vec(),
        leases: leases.status(),
        marks: record.marks.iter().cloned().map(Into::into).collect(),
        standbys: leases.standby_status(),
        leaving: is_leaving,
        bytes_per_second: leases.limits.throughput.rate(),
        proofs: leases.key_proofs(&registration),
        ledger_id: record.ledger_id(),
        highest_epoch: record.highest_epoch,
    };
    let response = client.heartbeat(request).await?.into_inner();
    // What can't be read is not served; what other jobs were granted is.
    let (granted, unreadable) = GrantedLeases::read(response.grants, response.standbys);
    log_unreadable(&unreadable);
    leases.release_log.mark_reported(&record);
    let key = CoordinatorPublicKey::from_slice(&response.coordinator_key)?;
    let verifier = TokenVerifier {
        key,
        epoch: response.coordinator_epoch,
        coordinator_ms: response.coordinator_ms,
        requested_at,
        known: leases.known_signatures.clone(),
    };
    let branches = granted.leases.iter().map(|grant| (grant.identity(), grant.branch())).collect();
    // Before anything is served under them: an older coordinator or branch is refused here.
    leases.release_log.clone().observe(session.ledger, verifier.epoch, branches).await?;
    draining.store(response.draining, Ordering::Relaxed);
    let coordinator_ms = verifier.coordinator_ms;
    let has_taken_over = leases.apply(granted, verifier, session.ttl, requested_at, plans);
    let has_more_marks = record.marks.len() >= MAX_MARKS_PER_MESSAGE;
    Ok(HeartbeatOutcome { may_leave: response.may_leave, has_taken_over, has_more_marks, coordinator_ms })
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
