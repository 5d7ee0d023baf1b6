//! The training job's side: bind, fetch, put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use node::telemetry::SPANS;
use node::telemetry::trace_context::TraceContext;
use proto::{
    Commitment, CoordinateRange, ElementType, JobId, ReceivedChunk, ReleaseToken, Result, RowRange,
    ServiceError, WorkerId, pb,
};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::StreamExt;
use tracing::{Instrument, trace_span};

use crate::connections::from_status;
use crate::routing_cache::RoutingCache;
use crate::{
    Connections, Delays, Jobs, Next, Part, Placement, Region, Routing, SliceRequest, Source, after,
    stream_chunks,
};

#[cfg(target_endian = "big")]
compile_error!("rows arrive as little-endian bytes and are taken as they are; this target is big-endian");

/// Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    coordinator: String,
    connections: Connections,
    routings: RoutingCache,
}

/// Rows of a range, each bound to its commitment.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    pub job: JobId,
    pub branch: u64,
    pub rows: RowRange,
    pub range: CoordinateRange,
    /// One for each row.
    pub commitments: Vec<Commitment>,
    pub deadline: Instant,
}

/// Where a fetch puts what comes.
enum Into<'a> {
    Bytes(&'a mut [u8]),
    Region(&'a mut Region, Placement),
}

impl Client {
    /// `coordinator`: its URL, or those of all that stand by each other, with commas between. Checks them; connects on
    /// the first call. Must be called inside a tokio runtime.
    pub fn connect(coordinator: &str) -> Result<Self> {
        Self::with_connections(coordinator, Connections::new())
    }

    pub fn with_connections(coordinator: &str, connections: Connections) -> Result<Self> {
        connections.coordinator(coordinator)?;
        Ok(Self { coordinator: coordinator.to_owned(), connections, routings: RoutingCache::default() })
    }

    pub fn jobs(&self) -> Jobs {
        Jobs::new(self.coordinator.clone(), self.connections.clone())
    }

    pub async fn routing(&self, job: &JobId) -> Result<Routing> {
        let request = pb::GetRoutingRequest { job: job.to_string() };
        let answer = self.connections.noise(&self.coordinator)?.get_routing(request).await;
        let routing = Routing::try_from(answer.map_err(from_status)?.into_inner())?;
        self.routings.keep(&routing);
        Ok(routing)
    }

    /// Has the worker's shards handed to others; gives how many it serves still. For operators.
    pub async fn drain_worker(&self, worker: &WorkerId, cancel: bool) -> Result<u32> {
        let request = pb::DrainWorkerRequest { worker: worker.to_string(), cancel };
        let answer = self.connections.workers(&self.coordinator)?.drain_worker(request).await;
        Ok(answer.map_err(from_status)?.into_inner().shards_left)
    }

    /// Binds all of the rows or none, durably; one token a row. The same commitments again are answered alike.
    pub async fn bind(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        commitments: &[Commitment],
    ) -> Result<Vec<ReleaseToken>> {
        self.bind_for(job, branch, rows, None, commitments).await
    }

    /// As [`Client::bind`], where only `range` will be fetched: `RangeNotAllowed` where this caller may not, before
    /// anything is bound.
    pub async fn bind_for(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        range: Option<CoordinateRange>,
        commitments: &[Commitment],
    ) -> Result<Vec<ReleaseToken>> {
        let request = pb::BindRequest {
            job: job.to_string(),
            branch,
            rows: Some(rows.into()),
            commitments: commitments.iter().map(|commitment| commitment.to_bytes().to_vec()).collect(),
            range: range.map(pb::CoordinateRange::from),
        };
        let answer = self.connections.noise(&self.coordinator)?.bind(request).await.map_err(from_status)?;
        let tokens = answer.into_inner().tokens;
        if tokens.len() as u64 != rows.len() {
            return Err(ServiceError::internal(format!("{} tokens for rows {rows}", tokens.len())));
        }
        tokens.iter().map(|token| ReleaseToken::try_from(token.as_slice())).collect()
    }

    /// Binds the rows and fetches them into `out`, row after row of `range.len()` values. Errors that are safe to
    /// retry are retried until the deadline; then `RangeUnavailable` names what is missing. After an error `out`
    /// holds some of the rows' values, and the rows stay bound.
    pub async fn fetch_into(&self, request: FetchRequest, out: &mut [f32]) -> Result<()> {
        self.fetch_bytes(request, ElementType::F32, bytemuck::cast_slice_mut(out)).await
    }

    /// As [`Client::fetch_into`], each value rounded to bf16 by the worker: the upper half of an f32.
    pub async fn fetch_bf16_into(&self, request: FetchRequest, out: &mut [u16]) -> Result<()> {
        self.fetch_bytes(request, ElementType::Bf16, bytemuck::cast_slice_mut(out)).await
    }

    async fn fetch_bytes(&self, request: FetchRequest, element: ElementType, out: &mut [u8]) -> Result<()> {
        let FetchRequest { rows, range, .. } = request;
        let values = u128::from(rows.len()) * u128::from(range.len());
        if out.len() as u128 != values * element.bytes() as u128 {
            let given = out.len() / element.bytes();
            return Err(ServiceError::invalid("out", format!("{given} values"), format!("{values} values")));
        }
        self.fetch_to(request, None, element, Into::Bytes(out)).await
    }

    /// Memory for `slots` rows of `range`, for [`Client::fetch_region`]: workers of this host that take regions
    /// write to it, the others' rows are written here.
    pub fn lend(&self, range: CoordinateRange, slots: u32, element: ElementType) -> Result<Region> {
        Region::create(range, slots, element)
    }

    /// As [`Client::fetch_into`], the rows to the slots from `slot` on of a region that holds the request's range.
    pub async fn fetch_region(&self, request: FetchRequest, region: &mut Region, slot: u32) -> Result<()> {
        self.fetch_lent(request, None, region, slot).await
    }

    /// As [`Client::fetch_region`], of rows bound before: `tokens` are what [`Client::bind`] gave.
    pub async fn fetch_bound_region(
        &self,
        request: FetchRequest,
        tokens: Vec<ReleaseToken>,
        region: &mut Region,
        slot: u32,
    ) -> Result<()> {
        self.fetch_lent(request, Some(tokens), region, slot).await
    }

    /// As [`Client::fetch_into`], of rows bound before: `tokens` are what [`Client::bind`] gave.
    pub async fn fetch_bound_into(
        &self,
        request: FetchRequest,
        tokens: Vec<ReleaseToken>,
        out: &mut [f32],
    ) -> Result<()> {
        let out = bytemuck::cast_slice_mut(out);
        self.fetch_to(request, Some(tokens), ElementType::F32, Into::Bytes(out)).await
    }

    async fn fetch_lent(
        &self,
        request: FetchRequest,
        tokens: Option<Vec<ReleaseToken>>,
        region: &mut Region,
        slot: u32,
    ) -> Result<()> {
        let placement = region.ready_for(request.rows, request.range, slot)?;
        let element = region.layout().element;
        self.fetch_to(request, tokens, element, Into::Region(region, placement)).await
    }

    /// Behind a pointer, so that it is compiled here and not by everyone who fetches.
    fn fetch_to<'a>(
        &'a self,
        request: FetchRequest,
        tokens: Option<Vec<ReleaseToken>>,
        element: ElementType,
        to: Into<'a>,
    ) -> BoxFuture<'a, Result<()>> {
        self.fetch_to_end(request, tokens, element, to).boxed()
    }

    async fn fetch_to_end(
        &self,
        request: FetchRequest,
        tokens: Option<Vec<ReleaseToken>>,
        element: ElementType,
        mut to: Into<'_>,
    ) -> Result<()> {
        let FetchRequest { rows, range, .. } = request;
        let span = trace_span!(
            target: SPANS, "fetch", otel.kind = "client", job = %request.job, branch = request.branch,
            first_row = rows.start, rows = rows.len(), coordinates = range.len()
        );
        let placement = match &to {
            Into::Bytes(_) => None,
            Into::Region(_, placement) => Some(placement.clone()),
        };
        let fetch = async {
            let mut chunks = self.fetch_chunks(request, tokens, element, placement).await?;
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk?;
                match &mut to {
                    Into::Bytes(out) => place(&chunk, rows, range, out)?,
                    Into::Region(_, _) if chunk.head.data_len == 0 => {}
                    Into::Region(region, placement) => region.place(&chunk, placement)?,
                }
            }
            Ok(())
        };
        // Binding and every slice belong to one trace: the caller's, or a new one.
        let context = TraceContext::of(&span, TraceContext::current());
        context.scope(fetch.instrument(span)).await
    }

    async fn fetch_chunks(
        &self,
        request: FetchRequest,
        tokens: Option<Vec<ReleaseToken>>,
        element: ElementType,
        region: Option<Placement>,
    ) -> Result<impl tokio_stream::Stream<Item = Result<ReceivedChunk>> + Send + use<>> {
        let began = Instant::now();
        let FetchRequest { job, branch, rows, range, commitments, deadline } = request;
        let was_routed = AtomicBool::new(false);
        let bound = BoundRows {
            client: self.clone(),
            job: job.clone(),
            branch,
            rows,
            range,
            commitments,
            was_routed,
        };
        let out_of_time = |_| {
            let waited_ms = began.elapsed().as_millis() as u64;
            ServiceError::range_unavailable(&job, vec![range], waited_ms)
        };
        let tokens = match tokens {
            Some(tokens) => tokens,
            None => timeout_at(deadline, bound.bind_until_it_works()).await.map_err(out_of_time)??,
        };
        let part = Part { rows, range };
        let request = SliceRequest { job, branch, part, tokens, began, deadline, element, region };
        Ok(stream_chunks(self.connections.clone(), Arc::new(bound), request))
    }
}

/// The chunk's bytes to their place in `out`, rows of `range` one after the other.
fn place(chunk: &ReceivedChunk, rows: RowRange, range: CoordinateRange, out: &mut [u8]) -> Result<()> {
    let head = &chunk.head;
    let value = (head.row - rows.start) * range.len() + (head.start - range.start);
    let at = value as usize * head.element.bytes();
    let outside = || ServiceError::internal("a chunk lies outside of the buffer");
    let mut rest = out.get_mut(at..at + head.data_len).ok_or_else(outside)?;
    for piece in &chunk.data {
        let (here, after) = rest.split_at_mut_checked(piece.len()).ok_or_else(outside)?;
        here.copy_from_slice(piece);
        rest = after;
    }
    Ok(())
}

struct BoundRows {
    client: Client,
    job: JobId,
    branch: u64,
    rows: RowRange,
    range: CoordinateRange,
    commitments: Vec<Commitment>,
    /// A routing kept from an earlier fetch is good enough to begin with: a worker refuses what is not its own.
    was_routed: AtomicBool,
}

impl BoundRows {
    async fn bind(&self) -> Result<Vec<ReleaseToken>> {
        let Self { client, job, branch, rows, range, .. } = self;
        client.bind_for(job, *branch, *rows, Some(*range), &self.commitments).await
    }

    async fn bind_until_it_works(&self) -> Result<Vec<ReleaseToken>> {
        let mut delays = Delays::default();
        loop {
            match self.bind().await {
                Err(error) if after(&error) == Next::Retry => sleep(delays.next_delay()).await,
                outcome => return outcome,
            }
        }
    }
}

impl Source for BoundRows {
    fn routing(&self) -> BoxFuture<'_, Result<Routing>> {
        let kept = if self.was_routed.swap(true, Ordering::Relaxed) {
            None
        } else {
            self.client.routings.kept(&self.job, self.branch)
        };
        Box::pin(async move {
            match kept {
                Some(routing) => Ok(routing),
                None => self.client.routing(&self.job).await,
            }
        })
    }

    fn tokens(&self) -> BoxFuture<'_, Result<Vec<ReleaseToken>>> {
        Box::pin(self.bind())
    }
}

#[cfg(test)]
mod tests {
    use proto::{ChunkHead, chunk_of};

    use super::*;

    #[test]
    fn chunks_land_at_their_row_and_coordinate() {
        let rows = RowRange { start: 3, end: 5 };
        let range = CoordinateRange { start: 10, end: 13 };
        let chunk = |start| {
            let bytes: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
            let message = chunk_of(4, start, ElementType::F32, bytes.into());
            let data = vec![message.data.slice(..3), message.data.slice(3..)];
            ReceivedChunk { head: ChunkHead::of(&message).unwrap(), data }
        };
        let mut out = [0.0f32; 6];
        place(&chunk(11), rows, range, bytemuck::cast_slice_mut(&mut out)).unwrap();
        assert_eq!(out, [0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
        assert!(place(&chunk(12), rows, range, bytemuck::cast_slice_mut(&mut out)).is_err());
    }
}
