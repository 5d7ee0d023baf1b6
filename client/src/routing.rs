//! Which worker serves which coordinates.

use proto::model::LocalAccess;
use proto::{CoordinateRange, ElementType, JobId, Result, ServiceError, WorkerId, pb};

/// One shard, and the worker that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The shard's number in its job.
    pub shard: u32,
    /// The shard's coordinates.
    pub range: CoordinateRange,
    /// The epoch of the worker's lease, which requests must present.
    pub lease_epoch: u64,
    /// The worker's URL; `None` where no worker is ready to serve the range now.
    pub endpoint: Option<String>,
    /// The worker at that endpoint: over TLS no other is accepted there.
    pub worker: Option<WorkerId>,
    /// How the worker is reached from its own host.
    pub local: Option<LocalAccess>,
    /// Why no worker serves the range now, in the coordinator's words; empty where one does.
    pub reason: String,
}

/// Every shard of a job, and the worker that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The job.
    pub job: JobId,
    /// Its current branch.
    pub branch: u64,
    /// Coordinates of its parameter vector.
    pub dimension: u64,
    /// Rows of its plan.
    pub iterations: u64,
    /// What the job's rows are: f32, or i32 where its plan is on a grid.
    pub element: ElementType,
    /// The routes in order of their ranges, which do not overlap.
    pub routes: Vec<Route>,
}

impl Routing {
    /// Refuses a range that reaches beyond the vector.
    pub fn check_range(&self, range: CoordinateRange) -> Result<()> {
        if range.end <= self.dimension {
            return Ok(());
        }
        let CoordinateRange { start, end } = range;
        Err(ServiceError::RangeBeyondDimension { start, end, dimension: self.dimension })
    }

    /// Returns whether this routing has the same route.
    pub(crate) fn still_has(&self, route: &Route) -> bool {
        self.routes.contains(route)
    }
}

impl TryFrom<pb::Routing> for Routing {
    type Error = ServiceError;
    fn try_from(routing: pb::Routing) -> Result<Self> {
        let mut routes: Vec<Route> =
            routing.routes.into_iter().map(Route::try_from).collect::<Result<_>>()?;
        routes.sort_by_key(|route| route.range);
        if let Some(pair) = routes.windows(2).find(|pair| pair[0].range.end > pair[1].range.start) {
            let overlap = format!("{} and {}", pair[0].range, pair[1].range);
            return Err(ServiceError::invalid("routes", overlap, "ranges that do not overlap"));
        }
        Ok(Self {
            job: JobId::new(routing.job)?,
            branch: routing.branch,
            dimension: routing.dimension,
            iterations: routing.iterations,
            element: routing.element_type.try_into()?,
            routes,
        })
    }
}

impl TryFrom<pb::Route> for Route {
    type Error = ServiceError;
    fn try_from(route: pb::Route) -> Result<Self> {
        if route.endpoint.is_empty() != route.worker.is_empty() {
            let given = format!("{:?} at {:?}", route.worker, route.endpoint);
            return Err(ServiceError::invalid("route", given, "a worker and its endpoint, or neither"));
        }
        let worker = (!route.worker.is_empty()).then(|| WorkerId::new(route.worker)).transpose()?;
        Ok(Self {
            shard: route.shard,
            range: route.range.try_into()?,
            lease_epoch: route.lease_epoch,
            endpoint: (!route.endpoint.is_empty()).then_some(route.endpoint),
            worker,
            local: route.local.map(Into::into),
            reason: route.reason,
        })
    }
}

impl From<Routing> for pb::Routing {
    fn from(routing: Routing) -> Self {
        Self {
            job: routing.job.into(),
            branch: routing.branch,
            dimension: routing.dimension,
            iterations: routing.iterations,
            element_type: routing.element.into(),
            routes: routing.routes.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Route> for pb::Route {
    fn from(route: Route) -> Self {
        let Route { shard, range, lease_epoch, endpoint, worker, local, reason } = route;
        Self {
            shard,
            range: Some(range.into()),
            lease_epoch,
            endpoint: endpoint.unwrap_or_default(),
            worker: worker.map_or_else(String::new, Into::into),
            local: local.map(Into::into),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(shard: u32, start: u64, end: u64) -> pb::Route {
        let range = Some(pb::CoordinateRange { start, end });
        let worker = format!("w-{shard}");
        let endpoint = format!("http://w-{shard}:7");
        pb::Route { shard, range, lease_epoch: 1, endpoint, worker, local: None, reason: String::new() }
    }

    fn routing(routes: Vec<pb::Route>) -> pb::Routing {
        let element_type = ElementType::I32.into();
        pb::Routing { job: "j".into(), branch: 0, dimension: 20, iterations: 5, routes, element_type }
    }

    #[test]
    fn routes_are_sorted_and_survive_the_wire() {
        let routing = Routing::try_from(routing(vec![route(1, 10, 20), route(0, 0, 10)])).unwrap();
        assert_eq!(routing.routes.iter().map(|route| route.shard).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(Routing::try_from(pb::Routing::from(routing.clone())).unwrap(), routing);
        assert!(routing.check_range(CoordinateRange { start: 0, end: 20 }).is_ok());
        assert!(routing.check_range(CoordinateRange { start: 0, end: 21 }).is_err());
    }

    #[test]
    fn an_endpoint_belongs_to_a_worker() {
        let unowned = pb::Route { endpoint: String::new(), worker: String::new(), ..route(0, 0, 20) };
        assert_eq!(Routing::try_from(routing(vec![unowned])).unwrap().routes[0].worker, None);
        for bad in [
            pb::Route { worker: String::new(), ..route(0, 0, 20) },
            pb::Route { endpoint: String::new(), ..route(0, 0, 20) },
            pb::Route { worker: "a b".into(), ..route(0, 0, 20) },
        ] {
            assert_eq!(Routing::try_from(routing(vec![bad])).unwrap_err().kind(), "invalid_argument");
        }
    }

    #[test]
    fn overlapping_routes_are_refused() {
        assert!(Routing::try_from(routing(vec![route(0, 0, 11), route(1, 10, 20)])).is_err());
    }
}
