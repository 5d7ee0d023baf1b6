//! The rows of one fetch, and how they are bound and routed.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use node::net::backoff::Backoff;
use proto::{Commitment, CoordinateRange, ElementType, JobId, ReleasedRows, Result, RowRange};
use tokio::time::{Instant, sleep};

use crate::retry::wait_before_retry;
use crate::{Client, FetchRequest, FetchSource, RetryAction, Routing, classify};

/// The rows of one fetch, bound through a client.
pub(crate) struct BoundRows {
    client: Client,
    job: JobId,
    branch: u64,
    rows: RowRange,
    range: CoordinateRange,
    commitments: Vec<Commitment>,
    /// Whether the cached routing has been used. To begin with it is good enough: a worker refuses what is not its own.
    has_used_cache: AtomicBool,
}

impl BoundRows {
    pub fn new(client: &Client, request: &FetchRequest) -> Self {
        let FetchRequest { job, branch, rows, range, commitments, .. } = request.clone();
        let has_used_cache = AtomicBool::new(false);
        Self { client: client.clone(), job, branch, rows, range, commitments, has_used_cache }
    }

    /// Checks that the job's rows are handed out as `requested`, before anything is bound, by a routing that the fetch needs
    /// in any case. Where there is none now, the worker's own check is left.
    pub async fn check_element(&self, requested: ElementType) -> Result<()> {
        let routing = match self.client.cached_routing(&self.job, self.branch) {
            Some(routing) => Ok(routing),
            None => self.client.routing(&self.job).await,
        };
        routing.map_or(Ok(()), |routing| routing.element.check_request(requested, &self.job))
    }

    async fn bind(&self) -> Result<ReleasedRows> {
        let Self { client, job, branch, rows, range, .. } = self;
        client.bind_for(job, *branch, *rows, Some(*range), &self.commitments).await
    }

    /// Binds the rows, again after errors that are safe to retry. Returns at once the error of a quota that is not free again
    /// before the deadline.
    pub async fn bind_with_retry(&self, deadline: Instant) -> Result<ReleasedRows> {
        let mut backoff = Backoff::for_calls();
        loop {
            match self.bind().await {
                Err(error) if classify(&error) == RetryAction::Retry => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let Some(wait) = wait_before_retry(&error, &mut backoff, left) else { return Err(error) };
                    sleep(wait).await;
                }
                outcome => return outcome,
            }
        }
    }
}

impl FetchSource for BoundRows {
    fn routing(&self) -> BoxFuture<'_, Result<Routing>> {
        let cached = if self.has_used_cache.swap(true, Ordering::Relaxed) {
            None
        } else {
            self.client.cached_routing(&self.job, self.branch)
        };
        Box::pin(async move {
            match cached {
                Some(routing) => Ok(routing),
                None => self.client.routing(&self.job).await,
            }
        })
    }

    fn release(&self) -> BoxFuture<'_, Result<ReleasedRows>> {
        Box::pin(self.bind())
    }
}
