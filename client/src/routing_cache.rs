//! The last routing of each job, which saves every fetch a round trip.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use proto::JobId;

use crate::Routing;

/// Routings by job. Clones share them. They go stale: workers refuse shards that are not theirs, and then a fetch
/// requests the routing again.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoutingCache(Arc<Mutex<HashMap<JobId, Routing>>>);

impl RoutingCache {
    /// Remembers a routing where every range has an owner; otherwise the next request may find one.
    pub fn insert(&self, routing: &Routing) {
        let mut routings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if routing.routes.iter().all(|route| route.endpoint.is_some()) {
            routings.insert(routing.job.clone(), routing.clone())
        } else {
            routings.remove(&routing.job)
        };
    }

    /// Returns the routing of a job, if it is of this branch.
    pub fn get(&self, job: &JobId, branch: u64) -> Option<Routing> {
        let routings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        routings.get(job).filter(|routing| routing.branch == branch).cloned()
    }
}
