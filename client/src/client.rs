//! The client of a training job: it binds rows and fetches them.

use proto::{
    Commitment, CoordinateRange, ElementType, JobId, ReleaseGrant, ReleasedRows, Result, RowRange,
    ServiceError, WorkerId, pb,
};
use tokio::time::Instant;

use crate::connections::from_status;
use crate::routing_cache::RoutingCache;
use crate::{Budgets, Connections, Jobs, Region, Routing};

/// A client of one cluster. Clones are cheap and share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    coordinator: String,
    connections: Connections,
    routings: RoutingCache,
}

/// The rows of a fetch, and the commitment that each is bound to.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The job.
    pub job: JobId,
    /// The branch of its Z that the rows belong to.
    pub branch: u64,
    /// The rows.
    pub rows: RowRange,
    /// The coordinates of each row.
    pub range: CoordinateRange,
    /// One commitment for each row.
    pub commitments: Vec<Commitment>,
    /// When the fetch gives up.
    pub deadline: Instant,
}

impl Client {
    /// Returns a client of the cluster whose coordinator is at `coordinator`: one URL, or those of all coordinators that
    /// stand by for one another, separated by commas. It checks them, and connects on the first call. Call this inside
    /// a tokio runtime.
    ///
    /// # Errors
    /// `InvalidArgument` where a URL is malformed, or leads beyond this host without TLS.
    pub fn connect(coordinator: &str) -> Result<Self> {
        Self::with_connections(coordinator, Connections::new())
    }

    /// Returns a client over the given connections, as [`Client::connect`] does over new ones.
    pub fn with_connections(coordinator: &str, connections: Connections) -> Result<Self> {
        connections.coordinator(coordinator)?;
        Ok(Self { coordinator: coordinator.to_owned(), connections, routings: RoutingCache::default() })
    }

    /// Returns a client of the cluster's jobs.
    pub fn jobs(&self) -> Jobs {
        Jobs::new(self.coordinator.clone(), self.connections.clone())
    }

    /// Returns a client of the cluster's data sets.
    pub fn budgets(&self) -> Budgets {
        Budgets::new(self.coordinator.clone(), self.connections.clone())
    }

    /// Returns which worker serves which coordinates of the job now.
    pub async fn routing(&self, job: &JobId) -> Result<Routing> {
        let request = pb::GetRoutingRequest { job: job.to_string() };
        let answer = self.connections.noise(&self.coordinator)?.get_routing(request).await;
        let routing = Routing::try_from(answer.map_err(from_status)?.into_inner())?;
        self.routings.insert(&routing);
        Ok(routing)
    }

    /// Hands the worker's shards to other workers, or with `cancel` stops doing so. Returns the number of shards that it
    /// still serves. For operators.
    pub async fn drain_worker(&self, worker: &WorkerId, cancel: bool) -> Result<u32> {
        let request = pb::DrainWorkerRequest { worker: worker.to_string(), cancel };
        let answer = self.connections.workers(&self.coordinator)?.drain_worker(request).await;
        Ok(answer.map_err(from_status)?.into_inner().shards_left)
    }

    /// Binds all of the rows or none, durably, and returns them with their grant. The same commitments again have the same
    /// effect.
    pub async fn bind(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        commitments: &[Commitment],
    ) -> Result<ReleasedRows> {
        self.bind_for(job, branch, rows, None, commitments).await
    }

    /// Binds rows, as [`Client::bind`] does, of which only `range` will be fetched. Fails with `RangeNotAllowed` where
    /// this caller may not fetch it, before anything is bound.
    pub async fn bind_for(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        range: Option<CoordinateRange>,
        commitments: &[Commitment],
    ) -> Result<ReleasedRows> {
        let request = pb::BindRequest {
            job: job.to_string(),
            branch,
            rows: Some(rows.into()),
            commitments: commitments.iter().map(|commitment| commitment.to_bytes().to_vec()).collect(),
            range: range.map(pb::CoordinateRange::from),
        };
        let answer = self.connections.noise(&self.coordinator)?.bind(request).await.map_err(from_status)?;
        let grant = ReleaseGrant::try_from(answer.into_inner().grant.as_slice())?;
        if grant.rows != rows {
            return Err(ServiceError::internal(format!("a grant for rows {} instead of {rows}", grant.rows)));
        }
        ReleasedRows::new(grant, commitments.to_vec())
    }

    /// Returns memory for `slots` rows of `range`, for [`crate::Fetch::into_region`]. Workers of this host that take regions
    /// write to it; the rows of other workers are written to it here.
    pub fn lend(&self, range: CoordinateRange, slots: u32, element: ElementType) -> Result<Region> {
        Region::create(range, slots, element)
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Returns the routing that an earlier fetch of the branch left behind.
    pub(crate) fn cached_routing(&self, job: &JobId, branch: u64) -> Option<Routing> {
        self.routings.get(job, branch)
    }
}
