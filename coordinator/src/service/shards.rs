//! The workers that serve each shard of a job, for checkpoints.

use client::Route;
use proto::{JobId, Result, ServiceError, WorkerId};
use tokio::time::{Instant, sleep};

use crate::coordinator::Coordinator;

impl Coordinator {
    /// Returns all routes of the job, each to a whole shard, with the endpoint and name of its worker. Waits up to the
    /// time of a lease for shards that change hands. Fails if a shard is not served.
    pub async fn ready_routes(&self, job: &JobId) -> Result<Vec<(Route, (String, WorkerId))>> {
        let began = Instant::now();
        while !self.cluster().job(job)?.superseded.is_empty() && began.elapsed() < self.lease_ttl() {
            sleep(self.settings().heartbeat / 2).await;
        }
        let is_whole = |route: &Route| {
            let cluster = self.cluster();
            let mut shards = cluster.job(job).into_iter().flat_map(|view| &view.shards);
            shards.any(|it| (it.record.shard, it.record.epoch) == (route.shard, route.lease_epoch))
        };
        let (whole, missing): (Vec<_>, Vec<_>) = self
            .routing(job)?
            .routes
            .into_iter()
            .partition(|route| route.endpoint.is_some() && is_whole(route));
        if !missing.is_empty() {
            let reason = missing.iter().map(|route| route.reason.clone()).find(|reason| !reason.is_empty());
            let missing = missing.into_iter().map(|route| route.range).collect();
            let error = ServiceError::range_unavailable(job, missing, 0);
            return Err(error.with_reason(reason.unwrap_or_default()));
        }
        Ok(whole
            .into_iter()
            .filter_map(|route| route.endpoint.clone().zip(route.worker.clone()).map(|at| (route, at)))
            .collect())
    }
}
