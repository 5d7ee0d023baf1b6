//! Routing and binding.

use std::sync::Arc;

use client::{Route, Routing};
use metrics::{counter, histogram};
use node::admission::in_flight;
use node::auth::carry_caller;
use node::process::runtime::spawn;
use proto::model::Bind;
use proto::{CoordinateRange, JobId, ReleasedRows, Result, ServiceError};
use release::authority::ReleaseAuthority;
use tokio::time::Instant;
use tracing::Instrument;

use crate::cluster::{Cluster, JobView, ShardView, SupersededLease, for_release};
use crate::coordinator::Coordinator;
use crate::metric_definitions::{BIND_SECONDS, BINDINGS_REFUSED, ROWS_BOUND};
use crate::quotas::Requester;

impl Coordinator {
    /// Returns where each shard of the job is served. Fails for a destroyed job.
    pub fn routing(&self, job: &JobId) -> Result<Routing> {
        let cluster = self.cluster();
        let view = cluster.job(job)?;
        if !view.is_served() {
            return Err(view.wrong_state("running or finished, to be routed"));
        }
        Ok(routing_of(&cluster, view, Instant::now()))
    }

    /// Binds rows to commitments and returns them with their grant. The binding is durable when this returns.
    pub async fn bind(&self, bind: Bind, requester: &Requester) -> Result<ReleasedRows> {
        let began = Instant::now();
        let job = bind.job.clone();
        let bound = self.try_to_bind(bind, requester).await;
        match &bound {
            Ok(_) => histogram!(BIND_SECONDS).record(began.elapsed()),
            Err(error) => {
                counter!(BINDINGS_REFUSED, "kind" => error.kind()).increment(1);
                self.cluster().binding_was_refused(&job, error.kind(), Instant::now());
            }
        }
        bound
    }

    /// Binds in a task of its own, so that a binding is counted even if its caller disconnects.
    pub async fn bind_detached(self: &Arc<Self>, bind: Bind, requester: Requester) -> Result<ReleasedRows> {
        self.wait_out_grace_period(&bind.job).await?;
        let coordinator = self.clone();
        let call = in_flight();
        let bound = async move {
            let _call = call;
            coordinator.bind(bind, &requester).await
        };
        spawn(carry_caller(bound).in_current_span()).await.map_err(ServiceError::internal)?
    }

    async fn try_to_bind(&self, bind: Bind, requester: &Requester) -> Result<ReleasedRows> {
        ReleaseAuthority::check(&bind)?;
        let job = bind.job.clone();
        let branch = bind.branch;
        let rows = bind.rows;
        let release_authority = self.release_authority().clone();
        self.wait_out_grace_period(&job).await?;
        self.check_not_contradicted(&job).await?;
        let mut permit = self.admit_rows(requester, &bind).await?;
        let nonce = self.cluster().job(&job)?.record.nonce;
        let marks = self.cluster().watermarks_to_check(&job);
        let to_check = for_release(&marks);
        let released = self
            .with_ledger(move |ledger| release_authority.release(ledger, bind, &nonce, &to_check))
            .await
            .inspect_err(|error| self.stop_if_behind(&job, error))?;
        permit.bound(released.newly);
        counter!(ROWS_BOUND).increment(released.newly);
        let mut cluster = self.cluster();
        cluster.confirm_watermarks(&marks);
        cluster.rows_were_bound(&job, branch, rows.end, released.newly);
        drop(cluster);
        Ok(released.rows)
    }
}

fn routing_of(cluster: &Cluster, view: &JobView, now: Instant) -> Routing {
    let record = &view.record;
    Routing {
        job: record.job.clone(),
        branch: record.branch,
        dimension: record.dimension,
        iterations: record.iterations,
        element: view.element(),
        routes: view.shards.iter().flat_map(|shard| routes_of(cluster, view, shard, now)).collect(),
    }
}

/// Returns the routes of one shard: to its owner once that has reported it ready, until then to the workers that served
/// its coordinates before.
fn routes_of(cluster: &Cluster, view: &JobView, shard: &ShardView, now: Instant) -> Vec<Route> {
    let record = &shard.record;
    let lease = |worker, process| SupersededLease {
        worker,
        process,
        shard: record.shard,
        range: record.range,
        epoch: record.epoch,
    };
    let owner = record.owner.clone().zip(shard.holder).map(|(worker, process)| lease(worker, process));
    if let Some(route) = owner.filter(|_| shard.is_ready).and_then(|lease| route(cluster, &lease, now)) {
        return vec![route];
    }
    let mut before: Vec<Route> = view
        .superseded
        .over(record.range)
        .filter_map(|lease| {
            let range = lease.range.intersection(&record.range)?;
            route(cluster, lease, now).map(|route| Route { range, ..route })
        })
        .collect();
    before.sort_by_key(|route| route.range);
    let reason = cluster.reason_unserved(now, view, shard).map(|reason| reason.to_string());
    let unserved = |start, end| Route {
        shard: record.shard,
        range: CoordinateRange { start, end },
        lease_epoch: record.epoch,
        endpoint: None,
        worker: None,
        local: None,
        reason: reason.clone().unwrap_or_default(),
    };
    let mut routes = Vec::new();
    let mut next = record.range.start;
    // Earlier leases overlap if a shard changed hands twice: the first of them serves.
    for route in before {
        if route.range.start < next {
            continue;
        }
        if next < route.range.start {
            routes.push(unserved(next, route.range.start));
        }
        next = route.range.end;
        routes.push(route);
    }
    if next < record.range.end {
        routes.push(unserved(next, record.range.end));
    }
    routes
}

/// Returns the route to a lease; `None` unless the process that holds it lives.
fn route(cluster: &Cluster, lease: &SupersededLease, now: Instant) -> Option<Route> {
    let member = cluster.members.live(&lease.worker, now)?;
    (member.incarnation == lease.process).then(|| Route {
        shard: lease.shard,
        range: lease.range,
        lease_epoch: lease.epoch,
        endpoint: Some(member.endpoint.clone()),
        worker: Some(lease.worker.clone()),
        local: member.local.clone(),
        reason: String::new(),
    })
}
