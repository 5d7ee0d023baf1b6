//! One `FetchSlice` call to one worker: every chunk is checked before it is delivered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::{
    CoordinateRange, ElementType, JobId, ReceivedChunk, ReleasedRows, Result, ServiceError, WorkerId, pb,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::chunks::Chunks;
use crate::region::Pending;
use crate::{Assembly, Connections, FetchSource, Placement, Route, Tile};

/// Time without a byte after which the routing is checked again: a frozen process keeps its connection open long after
/// its lease is gone.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The state that the slices of one fetch share.
pub(crate) struct SharedFetch {
    pub connections: Connections,
    pub source: Arc<dyn FetchSource>,
    pub job: JobId,
    pub branch: u64,
    pub deadline: Instant,
    pub assembly: Mutex<Assembly>,
    pub element: ElementType,
    /// The memory that workers of this host write the rows to.
    pub region: Option<Placement>,
    pub chunks: mpsc::Sender<Result<ReceivedChunk>>,
}

impl SharedFetch {
    pub fn assembly(&self) -> MutexGuard<'_, Assembly> {
        self.assembly.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a chunk as arrived and delivers it, in one step: a task that is cancelled has done both or neither.
    async fn deliver(&self, chunk: ReceivedChunk, tile: Tile, may_place: bool) -> Result<()> {
        let range = checked_range(&chunk, tile, self.element, may_place)?;
        let Ok(permit) = self.chunks.reserve().await else { return Err(ServiceError::Draining) };
        self.assembly().accept(chunk.head.row, range)?;
        permit.send(Ok(chunk));
        Ok(())
    }
}

/// Fetches `tile` by `route`. Chunks that arrived before an error have been delivered and stay valid.
pub(crate) async fn fetch_slice(
    shared: Arc<SharedFetch>,
    route: Route,
    tile: Tile,
    released: ReleasedRows,
) -> Result<()> {
    let (Some(endpoint), Some(worker)) = (shared.connections.nearest(&route), &route.worker) else {
        return Err(ServiceError::NotOwner { job: shared.job.to_string(), shard: route.shard });
    };
    let outcome = read_slice(&shared, (&endpoint, worker), &route, tile, &released).await;
    if let (Some(region), Err(ServiceError::NotFound { what, .. })) = (&shared.region, &outcome)
        && what == "region"
    {
        // The worker has restarted since the region was lent to it.
        region.forget(route.local.as_ref()).await;
        return Err(ServiceError::Unavailable { what: "the region at this worker".into() });
    }
    if matches!(outcome, Err(ServiceError::Unavailable { .. })) {
        shared.connections.forget(&endpoint);
    }
    outcome
}

async fn read_slice(
    shared: &SharedFetch,
    (endpoint, worker): (&str, &WorkerId),
    route: &Route,
    tile: Tile,
    released: &ReleasedRows,
) -> Result<()> {
    let channel = shared.connections.worker_channel(endpoint, worker)?;
    let mut request = request(shared, route, tile, released)?;
    let pending = target_region(shared, route, tile, &mut request).await;
    let call = Chunks::open(channel, &request);
    tokio::pin!(call);
    let mut chunks = loop {
        match timeout_at(stall_deadline(), &mut call).await {
            Ok(answer) => break answer?,
            Err(_) => check_still_routed(shared, route).await?,
        }
    };
    while let Some(chunk) = next_chunk(shared, route, &mut chunks).await? {
        shared.deliver(chunk, tile, pending.is_some()).await?;
    }
    // The worker announced the end: it writes nothing more for this request.
    pending.into_iter().for_each(Pending::answered);
    if shared.assembly().gaps(tile).is_empty() {
        return Ok(());
    }
    Err(ServiceError::Unavailable {
        what: format!("the rest of shard {} (its stream ended early)", route.shard),
    })
}

/// Requests that the worker write to the region, where there is one and the worker is on this host.
async fn target_region(
    shared: &SharedFetch,
    route: &Route,
    tile: Tile,
    request: &mut pb::FetchSliceRequest,
) -> Option<Pending> {
    let (target, pending) = shared.region.as_ref()?.target(route.local.as_ref(), tile.rows.start).await?;
    request.region = target.region.to_vec();
    request.slot = target.slot;
    Some(pending)
}

async fn next_chunk(
    shared: &SharedFetch,
    route: &Route,
    chunks: &mut Chunks,
) -> Result<Option<ReceivedChunk>> {
    loop {
        match timeout_at(stall_deadline(), chunks.next()).await {
            Ok(chunk) => return chunk,
            Err(_) => check_still_routed(shared, route).await?,
        }
    }
}

fn stall_deadline() -> Instant {
    Instant::now() + STALL_TIMEOUT
}

/// Fails where the route is no longer that of the shard. An unreachable coordinator is no reason to leave a worker that
/// may only be slow.
async fn check_still_routed(shared: &SharedFetch, route: &Route) -> Result<()> {
    match shared.source.routing().await {
        Ok(routing) if !routing.still_has(route) => {
            Err(ServiceError::NotOwner { job: shared.job.to_string(), shard: route.shard })
        }
        _ => Ok(()),
    }
}

fn request(
    shared: &SharedFetch,
    route: &Route,
    tile: Tile,
    released: &ReleasedRows,
) -> Result<pb::FetchSliceRequest> {
    let left = shared.deadline.saturating_duration_since(Instant::now()).as_millis();
    Ok(pb::FetchSliceRequest {
        job: shared.job.to_string(),
        branch: shared.branch,
        shard: route.shard,
        lease_epoch: route.lease_epoch,
        rows: Some(tile.rows.into()),
        range: Some(tile.range.into()),
        token: Some(released.token(tile.rows)?.into()),
        // 0 would mean the server's default.
        deadline_ms: u64::try_from(left).unwrap_or(u64::MAX).max(1),
        element_type: shared.element.into(),
        region: Vec::new(),
        slot: 0,
    })
}

fn checked_range(
    chunk: &ReceivedChunk,
    tile: Tile,
    element: ElementType,
    may_place: bool,
) -> Result<CoordinateRange> {
    let refused = |what: String| ServiceError::Unavailable { what };
    let range = chunk.head.check(tile.rows, element)?;
    if !tile.range.contains(&range) {
        return Err(refused(format!("a sound answer (coordinates {range} were not requested)")));
    }
    if chunk.head.data_len == 0 && !may_place {
        return Err(refused("a sound answer (rows placed in a region that was not named)".into()));
    }
    let sum = chunk.data.iter().fold(0, |sum, piece| crc32c::crc32c_append(sum, piece));
    if chunk.head.data_len > 0 {
        chunk.head.check_sum(sum)?;
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use proto::{ChunkHead, RowRange, chunk_of};

    use super::*;

    #[test]
    fn chunks_outside_the_part_or_empty_are_refused() {
        let tile =
            Tile { rows: RowRange { start: 0, end: 1 }, range: CoordinateRange { start: 10, end: 20 } };
        let chunk = |start, values: usize| {
            let message = chunk_of(0, start, ElementType::F32, vec![0; values * 4].into());
            ReceivedChunk { head: ChunkHead::of(&message).unwrap(), data: vec![message.data] }
        };
        let check =
            |chunk: &ReceivedChunk, may_place| checked_range(chunk, tile, ElementType::F32, may_place);
        assert_eq!(check(&chunk(10, 10), false).unwrap(), tile.range);
        for bad in [chunk(9, 2), chunk(19, 2), chunk(12, 0), chunk(u64::MAX, 1)] {
            assert!(check(&bad, true).unwrap_err().retry_safe());
        }
        let mut altered = chunk(10, 10);
        altered.head.crc32c = 1;
        assert!(check(&altered, false).unwrap_err().retry_safe());
        let mut placed = chunk(10, 0);
        placed.head.placed = 10;
        assert!(check(&placed, false).unwrap_err().retry_safe());
        assert_eq!(check(&placed, true).unwrap(), tile.range);
        let other = checked_range(&chunk(10, 10), tile, ElementType::Bf16, false).unwrap_err();
        assert!(!other.retry_safe(), "{other}");
    }
}
