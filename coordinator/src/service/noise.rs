//! Routing and binding.

use std::sync::Arc;

use client::{Route, Routing};
use metrics::{counter, histogram};
use node::admission::in_flight;
use node::process::runtime::spawn;
use proto::model::Bind;
use proto::{CoordinateRange, JobId, ReleaseToken, Result, ServiceError};
use tokio::time::Instant;
use tracing::Instrument;

use crate::cluster::{Cluster, JobView, Retiring, ShardView};
use crate::coordinator::Coordinator;
use crate::metric_definitions::{BIND_SECONDS, BINDINGS_REFUSED, ROWS_BOUND};
use crate::release::Releaser;

impl Coordinator {
    pub fn routing(&self, job: &JobId) -> Result<Routing> {
        let cluster = self.cluster();
        let view = cluster.job(job)?;
        if !view.is_served() {
            return Err(view.wrong_state("running or finished, to be routed"));
        }
        Ok(routing_of(&cluster, view, Instant::now()))
    }

    /// Durable when it returns; one token a row.
    pub async fn bind(&self, bind: Bind) -> Result<Vec<ReleaseToken>> {
        let began = Instant::now();
        let bound = self.try_to_bind(bind).await;
        match &bound {
            Ok(_) => histogram!(BIND_SECONDS).record(began.elapsed()),
            Err(error) => counter!(BINDINGS_REFUSED, "kind" => error.kind()).increment(1),
        }
        bound
    }

    /// The same for a caller that may leave: what the ledger then has is counted here too.
    pub async fn bind_to_its_end(self: &Arc<Self>, bind: Bind) -> Result<Vec<ReleaseToken>> {
        self.outwait_grace_period(&bind.job).await;
        let coordinator = self.clone();
        let held = in_flight();
        let bound = async move {
            let _held = held;
            coordinator.bind(bind).await
        };
        spawn(bound.in_current_span()).await.map_err(ServiceError::internal)?
    }

    async fn try_to_bind(&self, bind: Bind) -> Result<Vec<ReleaseToken>> {
        Releaser::check(&bind)?;
        let job = bind.job.clone();
        let branch = bind.branch;
        let rows = bind.rows;
        let releaser = self.releaser.clone();
        self.outwait_grace_period(&job).await;
        let marks = self.cluster().marks_to_check(&job);
        let told = marks.clone();
        let released = self.with_ledger(move |ledger| releaser.release(ledger, &bind, &told)).await?;
        counter!(ROWS_BOUND).increment(released.newly);
        let mut cluster = self.cluster();
        cluster.marks_agree(&marks);
        cluster.rows_were_bound(&job, branch, rows.end, released.newly);
        Ok(released.tokens)
    }
}

fn routing_of(cluster: &Cluster, view: &JobView, now: Instant) -> Routing {
    let record = &view.record;
    Routing {
        job: record.job.clone(),
        branch: record.branch,
        dimension: record.dimension,
        iterations: record.iterations,
        routes: view.shards.iter().flat_map(|shard| routes_of(cluster, view, shard, now)).collect(),
    }
}

/// To the owner, once it has said that the shard is ready; until then to whom served its coordinates before.
fn routes_of(cluster: &Cluster, view: &JobView, shard: &ShardView, now: Instant) -> Vec<Route> {
    let record = &shard.record;
    let lease = |worker, process| Retiring {
        worker,
        process,
        shard: record.shard,
        range: record.range,
        epoch: record.epoch,
    };
    let own = record.owner.clone().zip(shard.holder).map(|(worker, process)| lease(worker, process));
    if let Some(route) = own.filter(|_| shard.is_ready).and_then(|lease| route(cluster, &lease, now)) {
        return vec![route];
    }
    let mut before: Vec<Route> = view
        .retiring
        .over(record.range)
        .filter_map(|lease| {
            let range = lease.range.intersection(&record.range)?;
            route(cluster, lease, now).map(|route| Route { range, ..route })
        })
        .collect();
    before.sort_by_key(|route| route.range);
    let nobody = |start, end| Route {
        shard: record.shard,
        range: CoordinateRange { start, end },
        lease_epoch: record.epoch,
        endpoint: None,
        worker: None,
        local: None,
    };
    let mut routes = Vec::new();
    let mut next = record.range.start;
    // Two leases before may lie over each other, where a shard changed hands twice: the first of them will do.
    for route in before {
        if route.range.start < next {
            continue;
        }
        if next < route.range.start {
            routes.push(nobody(next, route.range.start));
        }
        next = route.range.end;
        routes.push(route);
    }
    if next < record.range.end {
        routes.push(nobody(next, record.range.end));
    }
    routes
}

/// `None` unless the process that holds the lease lives.
fn route(cluster: &Cluster, lease: &Retiring, now: Instant) -> Option<Route> {
    let member = cluster.members.live(&lease.worker, now)?;
    (member.incarnation == lease.process).then(|| Route {
        shard: lease.shard,
        range: lease.range,
        lease_epoch: lease.epoch,
        endpoint: Some(member.endpoint.clone()),
        worker: Some(lease.worker.clone()),
        local: member.local.clone(),
    })
}
