//! The worker's side of membership: register, then a heartbeat that carries what is held and brings what should be.
//! A worker that is told to end goes on with it until others have taken over what it serves, for a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use node::{backoff::Backoff, readiness::Readiness};
use proto::{
    Incarnation, JobId, LONGEST_WORKER_BACKOFF, MOST_MARKS_TOLD, PROTOCOL_VERSION, ReleaseKey, Result,
    ServiceError, WorkerId,
    model::{LeaseGrant, LocalAccess, WorkerPlace},
    pb,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    clerk::Clerk,
    connect::Client,
    leases::{Granted, Leases, Plans},
};

const FIRST_DELAY: Duration = Duration::from_millis(50);

/// Who this worker is to the coordinator.
#[derive(Clone, Debug)]
pub struct Member {
    pub worker: WorkerId,
    pub incarnation: Incarnation,
    pub endpoint: String,
    /// How processes on this host reach it.
    pub local: Option<LocalAccess>,
    pub place: WorkerPlace,
}

/// How a worker ends.
#[derive(Debug)]
pub struct Leaving {
    /// It is told to.
    pub shutdown: CancellationToken,
    /// How long others may take to take over what it serves.
    pub deadline: Duration,
    /// Nothing more is served.
    pub refusing: CancellationToken,
}

impl Leaving {
    /// Where there is nothing to hand over, at once.
    async fn too_late(&self, leases: &Leases) {
        self.shutdown.cancelled().await;
        if !leases.is_empty() {
            tokio::time::sleep(self.deadline).await;
            tracing::warn!(deadline = ?self.deadline, "leaving with shards that nobody has taken over in time");
        }
    }
}

/// Why a session ended.
enum Ended {
    /// Nothing is left to do here.
    MayLeave,
    Failed(ServiceError),
}

/// Asks the coordinator for plans.
#[derive(Clone, Debug)]
struct CoordinatorPlans(Client);

#[async_trait::async_trait]
impl Plans for CoordinatorPlans {
    async fn plan(&self, job: &JobId) -> Result<String> {
        let request = pb::GetJobPlanRequest { job: job.to_string() };
        Ok(self.0.clone().get_job_plan(request).await?.into_inner().plan_toml)
    }
}

/// Runs until shutdown. Fails only where going on makes no sense: another protocol or stream version, or a record of
/// released rows that can't be written, with which nothing more is released: others can serve the shards.
pub async fn run(
    client: Client,
    member: Member,
    leases: Arc<Leases>,
    readiness: Readiness,
    leaving: Leaving,
) -> Result<()> {
    let told_to_drain = AtomicBool::new(false);
    let too_late = leaving.too_late(&leases);
    tokio::pin!(too_late);
    let plans: Arc<dyn Plans> = Arc::new(CoordinatorPlans(client.clone()));
    let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_WORKER_BACKOFF);
    while !leaving.shutdown.is_cancelled() {
        let shared =
            Shared { member: &member, leases: &leases, plans: &plans, told_to_drain: &told_to_drain };
        let session = session(client.clone(), shared, &leaving.shutdown, &readiness, &mut backoff);
        let error = tokio::select! {
            biased;
            ended = session => match ended {
                Ended::MayLeave => break,
                Ended::Failed(error) => error,
            },
            () = &mut too_late => break,
        };
        if is_final(&error) || leases.marks.has_failed() {
            return Err(error);
        }
        readiness.set_not_ready(error.to_string());
        tracing::warn!(%error, "no contact with the coordinator; trying again");
        tokio::select! {
            biased;
            () = leaving.shutdown.cancelled() => {}
            () = tokio::time::sleep(backoff.next().unwrap_or(LONGEST_WORKER_BACKOFF)) => {}
        }
    }
    leaving.refusing.cancel();
    deregister(client, &member).await;
    Ok(())
}

fn is_final(error: &ServiceError) -> bool {
    use ServiceError::*;
    matches!(error, ProtocolVersionMismatch { .. } | StreamVersionMismatch { .. } | InvalidArgument { .. })
}

/// What all sessions of a worker have in common.
#[derive(Clone, Copy)]
struct Shared<'a> {
    member: &'a Member,
    leases: &'a Arc<Leases>,
    plans: &'a Arc<dyn Plans>,
    /// By an operator, whom the next coordinator would not know of.
    told_to_drain: &'a AtomicBool,
}

/// One registration and its heartbeats, until one of them fails.
async fn session(
    mut client: Client,
    shared: Shared<'_>,
    shutdown: &CancellationToken,
    readiness: &Readiness,
    backoff: &mut Backoff,
) -> Ended {
    let terms = match begin(&mut client, shared).await {
        Ok(terms) => terms,
        Err(error) => return Ended::Failed(error),
    };
    let every = Duration::from_millis(terms.heartbeat_ms);
    let ttl = Duration::from_millis(terms.lease_ttl_ms);
    loop {
        let asked = Instant::now();
        let is_leaving = shutdown.is_cancelled();
        let beat = match tokio::time::timeout(ttl, beat(&mut client, shared, is_leaving, ttl)).await {
            Ok(Ok(beat)) => beat,
            Ok(Err(error)) => return Ended::Failed(error),
            Err(_) => {
                let what = format!("the coordinator (silent for {ttl:?})");
                return Ended::Failed(ServiceError::Unavailable { what });
            }
        };
        if is_leaving && beat.may_leave {
            return Ended::MayLeave;
        }
        // Whoever replaces workers one by one waits for each to have its shards again.
        match shared.leases.restoring() {
            0 => readiness.set_ready(),
            shards => readiness.set_not_ready(format!("restoring {shards} shards")),
        }
        backoff.reset();
        shared.leases.record_gauges();
        // The coordinator waits to hear of these before it sends anyone here, or before it binds.
        if beat.has_taken_over || beat.has_more_to_tell {
            continue;
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if !is_leaving => {}
            () = tokio::time::sleep(every.saturating_sub(asked.elapsed())) => {}
        }
    }
}

async fn begin(client: &mut Client, shared: Shared<'_>) -> Result<pb::RegisterResponse> {
    let Shared { member, leases, told_to_drain, .. } = shared;
    let WorkerPlace { host, labels, memory_bytes } = member.place.clone();
    leases.marks.forget_told();
    let marks = leases.marks.risen();
    let request = pb::RegisterRequest {
        worker: member.worker.to_string(),
        endpoint: member.endpoint.clone(),
        local: member.local.clone().map(Into::into),
        protocol_version: PROTOCOL_VERSION,
        stream_version: noise_kernel::STREAM_VERSION,
        incarnation: member.incarnation.0.to_vec(),
        marks: marks.iter().cloned().map(Into::into).collect(),
        draining: told_to_drain.load(Ordering::Relaxed),
        host,
        labels,
        memory_bytes: memory_bytes.unwrap_or(0),
    };
    let terms = client.register(request).await?.into_inner();
    leases.marks.told(&marks);
    leases.marks.see_epoch(terms.coordinator_epoch).await?;
    tracing::info!(worker = %member.worker, coordinator_epoch = terms.coordinator_epoch, "registered");
    Ok(terms)
}

/// What came of a heartbeat.
struct Beat {
    may_leave: bool,
    has_taken_over: bool,
    has_more_to_tell: bool,
}

async fn beat(client: &mut Client, shared: Shared<'_>, is_leaving: bool, ttl: Duration) -> Result<Beat> {
    let Shared { member, leases, plans, told_to_drain } = shared;
    let asked = Instant::now();
    let marks = leases.marks.risen();
    let told = marks.clone();
    let request = pb::HeartbeatRequest {
        worker: member.worker.to_string(),
        incarnation: member.incarnation.0.to_vec(),
        leases: leases.status(),
        marks: marks.into_iter().map(Into::into).collect(),
        standbys: leases.standby_status(),
        leaving: is_leaving,
        bytes_per_second: leases.limits.meter.rate(),
    };
    let response = client.heartbeat(request).await?.into_inner();
    let grants = |grants: Vec<pb::LeaseGrant>| -> Result<Vec<_>> {
        grants.into_iter().map(LeaseGrant::try_from).collect()
    };
    let granted = Granted { leases: grants(response.grants)?, standbys: grants(response.standbys)? };
    leases.marks.told(&told);
    let key = ReleaseKey::try_from_bytes(&response.release_key)?;
    let clerk = Clerk { key, epoch: response.coordinator_epoch, said_ms: response.coordinator_ms, asked };
    let branches = granted.leases.iter().map(|grant| (grant.job.clone(), grant.branch())).collect();
    // Before anything is served under them: an older coordinator or branch ends here.
    leases.marks.clone().see(clerk.epoch, branches).await?;
    told_to_drain.store(response.draining, Ordering::Relaxed);
    let has_taken_over = leases.apply(granted, clerk, ttl, asked, plans);
    let has_more_to_tell = told.len() >= MOST_MARKS_TOLD;
    Ok(Beat { may_leave: response.may_leave, has_taken_over, has_more_to_tell })
}

async fn deregister(mut client: Client, member: &Member) {
    let request = pb::DeregisterRequest {
        worker: member.worker.to_string(),
        incarnation: member.incarnation.0.to_vec(),
    };
    let told = tokio::time::timeout(Duration::from_secs(2), client.deregister(request)).await;
    if let Ok(Err(error)) = told {
        tracing::warn!(%error, "could not tell the coordinator of leaving");
    }
}
