//! Where each shard of a job is served: what a checkpoint needs.

use client::Route;
use proto::{JobId, Result, ServiceError};

use crate::coordinator::Coordinator;

impl Coordinator {
    /// All routes of the job, each with an endpoint.
    pub fn ready_routes(&self, job: &JobId) -> Result<Vec<(Route, String)>> {
        let routes = self.routing(job)?.routes;
        let missing: Vec<_> =
            routes.iter().filter(|route| route.endpoint.is_none()).map(|route| route.range).collect();
        if !missing.is_empty() {
            return Err(ServiceError::RangeUnavailable { job: job.to_string(), missing, waited_ms: 0 });
        }
        Ok(routes
            .into_iter()
            .filter_map(|route| route.endpoint.clone().map(|endpoint| (route, endpoint)))
            .collect())
    }
}
