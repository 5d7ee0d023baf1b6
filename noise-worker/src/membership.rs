//! The worker's side of membership: register, then a heartbeat that carries what is held and brings what should be.

use std::{sync::Arc, time::Duration};

use node::{backoff::Backoff, readiness::Readiness};
use proto::{
    Incarnation, JobId, PROTOCOL_VERSION, ReleaseKey, Result, ServiceError, WorkerId,
    model::{JobMark, LeaseGrant, LocalAccess},
    pb,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    clerk::Clerk,
    connect::Client,
    leases::{Leases, Plans},
};

/// Who this worker is to the coordinator.
#[derive(Clone, Debug)]
pub struct Member {
    pub worker: WorkerId,
    pub incarnation: Incarnation,
    pub endpoint: String,
    /// How processes on this host reach it.
    pub local: Option<LocalAccess>,
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

/// Runs until shutdown. Fails only where going on makes no sense: another protocol or stream version.
pub async fn run(
    client: Client,
    member: Member,
    leases: Arc<Leases>,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> Result<()> {
    let plans: Arc<dyn Plans> = Arc::new(CoordinatorPlans(client.clone()));
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
    while !shutdown.is_cancelled() {
        let session = session(client.clone(), &member, &leases, &plans, &readiness, &mut backoff);
        let error = tokio::select! {
            biased;
            error = session => error,
            () = shutdown.cancelled() => break,
        };
        if is_final(&error) {
            return Err(error);
        }
        readiness.set_not_ready(error.to_string());
        tracing::warn!(%error, "no contact with the coordinator; trying again");
        tokio::time::sleep(backoff.next().unwrap_or(Duration::from_secs(2))).await;
    }
    deregister(client, &member).await;
    Ok(())
}

fn is_final(error: &ServiceError) -> bool {
    use ServiceError::*;
    matches!(error, ProtocolVersionMismatch { .. } | StreamVersionMismatch { .. } | InvalidArgument { .. })
}

/// One registration and its heartbeats, until one of them fails.
async fn session(
    mut client: Client,
    member: &Member,
    leases: &Arc<Leases>,
    plans: &Arc<dyn Plans>,
    readiness: &Readiness,
    backoff: &mut Backoff,
) -> ServiceError {
    let marks = leases.marks.clone();
    let terms = match register(&mut client, member, marks.all()).await {
        Ok(terms) => terms,
        Err(error) => return error,
    };
    let (every, ttl) = (Duration::from_millis(terms.heartbeat_ms), Duration::from_millis(terms.lease_ttl_ms));
    if let Err(error) = marks.see_epoch(terms.coordinator_epoch).await {
        return error;
    }
    tracing::info!(worker = %member.worker, coordinator_epoch = terms.coordinator_epoch, "registered");
    loop {
        let asked = Instant::now();
        match tokio::time::timeout(ttl, heartbeat(&mut client, member, leases)).await {
            Ok(Ok((grants, clerk))) => {
                let branches = grants.iter().map(|grant| (grant.job.clone(), grant.branch())).collect();
                // Before anything is served under them: an older coordinator or branch ends here.
                if let Err(error) = marks.see(clerk.epoch, branches).await {
                    return error;
                }
                leases.apply(grants, clerk, ttl, asked, plans);
            }
            Ok(Err(error)) => return error,
            Err(_) => {
                return ServiceError::Unavailable { what: format!("the coordinator (silent for {ttl:?})") };
            }
        }
        // Whoever replaces workers one by one waits for each to have its shards again.
        match leases.restoring() {
            0 => readiness.set_ready(),
            shards => readiness.set_not_ready(format!("restoring {shards} shards")),
        }
        backoff.reset();
        leases.record_gauges();
        tokio::time::sleep(every.saturating_sub(asked.elapsed())).await;
    }
}

async fn register(client: &mut Client, member: &Member, marks: Vec<JobMark>) -> Result<pb::RegisterResponse> {
    let request = pb::RegisterRequest {
        worker: member.worker.to_string(),
        endpoint: member.endpoint.clone(),
        local: member.local.clone().map(Into::into),
        protocol_version: PROTOCOL_VERSION,
        stream_version: noise_kernel::STREAM_VERSION,
        incarnation: member.incarnation.0.to_vec(),
        marks: marks.into_iter().map(Into::into).collect(),
    };
    Ok(client.register(request).await?.into_inner())
}

async fn heartbeat(
    client: &mut Client,
    member: &Member,
    leases: &Leases,
) -> Result<(Vec<LeaseGrant>, Clerk)> {
    let (asked, marks) = (Instant::now(), leases.marks.risen());
    let told = marks.clone();
    let request = pb::HeartbeatRequest {
        worker: member.worker.to_string(),
        incarnation: member.incarnation.0.to_vec(),
        leases: leases.status(),
        marks: marks.into_iter().map(Into::into).collect(),
    };
    let response = client.heartbeat(request).await?.into_inner();
    let grants = response.grants.into_iter().map(LeaseGrant::try_from).collect::<Result<_>>()?;
    leases.marks.told(&told);
    let key = ReleaseKey::try_from_bytes(&response.release_key)?;
    Ok((grants, Clerk { key, epoch: response.coordinator_epoch, said_ms: response.coordinator_ms, asked }))
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
