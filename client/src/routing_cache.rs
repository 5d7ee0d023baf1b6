//! The last routing of each job: asking for it again before every fetch would cost a round trip.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use proto::JobId;

use crate::Routing;

/// Clones share what they keep. Routings go stale: workers refuse what is not theirs, and then a fetch asks again.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoutingCache(Arc<Mutex<HashMap<JobId, Routing>>>);

impl RoutingCache {
    /// Only where every range has an owner: otherwise asking again may bring one.
    pub fn keep(&self, routing: &Routing) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if routing.routes.iter().all(|route| route.endpoint.is_some()) {
            kept.insert(routing.job.clone(), routing.clone())
        } else {
            kept.remove(&routing.job)
        };
    }

    pub fn kept(&self, job: &JobId, branch: u64) -> Option<Routing> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(job).filter(|routing| routing.branch == branch).cloned()
    }
}
