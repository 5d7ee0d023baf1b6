//! The loop of a fetch: slices from all workers at once, and again those that are missing, until all have arrived or time
//! is up.

use std::sync::{Arc, Mutex};

use node::net::backoff::Backoff;
use proto::{ElementType, JobId, ReceivedChunk, ReleasedRows, Result, ServiceError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, warn};

use crate::slice::{SharedFetch, fetch_slice};
use crate::tile::split_among_routes;
use crate::{Assembly, Connections, FetchSource, Placement, RetryAction, Tile, classify};

/// Chunks, of up to 4 MiB each, that may wait for the receiver.
const QUEUED_CHUNKS: usize = 8;

/// A tile of rows that are bound, and how to fetch it.
#[derive(Clone, Debug)]
pub struct SliceRequest {
    /// The job.
    pub job: JobId,
    /// The branch that the rows are bound in.
    pub branch: u64,
    /// The rows and coordinates.
    pub tile: Tile,
    /// The rows, or more, with the grant of their Bind.
    pub released: ReleasedRows,
    /// When the fetch began; errors report how long it has waited.
    pub began: Instant,
    /// When the fetch gives up.
    pub deadline: Instant,
    /// The type of the values.
    pub element: ElementType,
    /// The memory that workers of this host write the rows to.
    pub region: Option<Placement>,
}

/// Returns checked chunks in any order, each coordinate of each row once. The stream ends when all have arrived, or with
/// one error: `RangeUnavailable`, which names the missing coordinates, once the deadline has passed.
///
/// Dropping the stream stops the fetch. Call this inside a tokio runtime.
pub fn stream_chunks(
    connections: Connections,
    source: Arc<dyn FetchSource>,
    request: SliceRequest,
) -> ReceiverStream<Result<ReceivedChunk>> {
    let (chunks, receiver) = mpsc::channel(QUEUED_CHUNKS);
    let SliceRequest { job, branch, tile, released, began, deadline, element, region } = request;
    let shared = SharedFetch {
        connections,
        source,
        job,
        branch,
        deadline,
        assembly: Mutex::new(Assembly::new(tile)),
        element,
        region,
        chunks,
    };
    let fetch = FetchLoop {
        shared: Arc::new(shared),
        tile,
        released,
        began,
        pending: vec![tile],
        slices: JoinSet::new(),
        backoff: Backoff::for_calls(),
        is_rebinding: false,
        may_skip_backoff: true,
        skips_backoff: false,
        unserved_reason: String::new(),
    };
    tokio::spawn(node::telemetry::trace_context::carry(fetch.run()));
    ReceiverStream::new(receiver)
}

struct FetchLoop {
    shared: Arc<SharedFetch>,
    tile: Tile,
    released: ReleasedRows,
    began: Instant,
    /// The tiles that have not arrived and that no slice is fetching.
    pending: Vec<Tile>,
    slices: JoinSet<(Tile, Result<()>)>,
    backoff: Backoff,
    is_rebinding: bool,
    /// Whether a lease that has moved may be looked up without a delay: once, until something has arrived.
    may_skip_backoff: bool,
    /// Whether the current attempt does so.
    skips_backoff: bool,
    /// Why the coordinator had no worker for a tile at the last look; empty where it had one for each.
    unserved_reason: String,
}

/// How a slice ended.
enum SliceEnd {
    Complete,
    /// Its worker has handed the shard over; the routing names the new one.
    Moved,
    Failed,
}

impl FetchLoop {
    async fn run(mut self) {
        let chunks = self.shared.chunks.clone();
        let deadline = self.shared.deadline;
        let outcome = tokio::select! {
            biased;
            // The receiver was dropped.
            () = chunks.closed() => return,
            outcome = timeout_at(deadline, self.fetch_all()) => outcome,
        };
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => self.out_of_time(),
        };
        // No slice may add chunks behind the error.
        self.slices.shutdown().await;
        let _receiver_gone = chunks.send(Err(error)).await;
    }

    async fn fetch_all(&mut self) -> Result<()> {
        // Without a timer: even one that is due would cost a millisecond.
        self.request_pending().await?;
        let mut retry_at = Instant::now() + self.backoff.next_delay();
        while !(self.pending.is_empty() && self.slices.is_empty()) {
            tokio::select! {
                biased;
                Some(ended) = self.slices.join_next() => {
                    match self.slice_ended(ended.map_err(ServiceError::internal)?)? {
                        SliceEnd::Complete => {}
                        SliceEnd::Moved => retry_at = Instant::now(),
                        SliceEnd::Failed => retry_at = retry_at.max(Instant::now() + self.backoff.next_delay()),
                    }
                }
                () = sleep_until(retry_at), if !self.pending.is_empty() => {
                    self.request_pending().await?;
                    retry_at = Instant::now() + self.backoff.next_delay();
                }
            }
        }
        if self.shared.assembly().is_complete() {
            return Ok(());
        }
        Err(ServiceError::internal("a fetch ended before all of its range had arrived"))
    }

    /// Returns how the slice ended, and queues the rest of its tile.
    fn slice_ended(&mut self, (tile, outcome): (Tile, Result<()>)) -> Result<SliceEnd> {
        let gaps = self.shared.assembly().gaps(tile);
        if gaps != [tile] {
            self.backoff.reset();
            self.may_skip_backoff = true;
        }
        self.pending.extend(gaps);
        let Err(error) = outcome else { return Ok(SliceEnd::Complete) };
        let has_moved = matches!(error, ServiceError::NotOwner { .. } | ServiceError::Fenced { .. });
        self.handle_error(error)?;
        self.skips_backoff |= has_moved && std::mem::take(&mut self.may_skip_backoff);
        Ok(if has_moved && self.skips_backoff { SliceEnd::Moved } else { SliceEnd::Failed })
    }

    fn handle_error(&mut self, error: ServiceError) -> Result<()> {
        match classify(&error) {
            RetryAction::Stop => return Err(error),
            RetryAction::Retry => {}
            RetryAction::Rebind => self.is_rebinding = true,
        }
        debug!(job = %self.shared.job, kind = error.kind(), %error, "fetching the rest again");
        Ok(())
    }

    async fn request_pending(&mut self) -> Result<()> {
        self.skips_backoff = false;
        if let Err(error) = self.try_request_pending().await {
            self.handle_error(error)?;
        }
        Ok(())
    }

    async fn try_request_pending(&mut self) -> Result<()> {
        if self.is_rebinding {
            self.released = self.shared.source.release().await?;
            self.is_rebinding = false;
        }
        let routing = self.shared.source.routing().await?;
        routing.check_range(self.tile.range)?;
        let split = split_among_routes(&self.pending, &routing);
        self.pending = split.unserved;
        self.unserved_reason = split.reason;
        for (route, tile) in split.served {
            let slice = fetch_slice(self.shared.clone(), route, tile, self.released.clone());
            self.slices.spawn(node::telemetry::trace_context::carry(async move { (tile, slice.await) }));
        }
        Ok(())
    }

    fn out_of_time(&self) -> ServiceError {
        let missing = self.shared.assembly().missing_ranges();
        let waited_ms = self.began.elapsed().as_millis() as u64;
        warn!(job = %self.shared.job, rows = %self.tile.rows, waited_ms, "no worker served the whole range in time");
        ServiceError::range_unavailable(&self.shared.job, missing, waited_ms)
            .with_reason(&self.unserved_reason)
    }
}
