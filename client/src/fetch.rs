//! One fetch of rows, as a builder: the rows, their bindings, and the place of their values.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use node::telemetry::SPANS;
use node::telemetry::trace_context::TraceContext;
use proto::{CoordinateRange, ElementType, ReceivedChunk, ReleasedRows, Result, RowRange, ServiceError};
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt;
use tracing::{Instrument, trace_span};

use crate::bound_rows::BoundRows;
use crate::{Client, FetchRequest, Placement, Region, SliceRequest, Tile, stream_chunks};

#[cfg(target_endian = "big")]
compile_error!("rows arrive as little-endian bytes and are taken as they are; this target is big-endian");

/// A fetch that has not begun: [`Fetch::into_slice`], [`Fetch::into_bf16`], [`Fetch::into_integers`] and
/// [`Fetch::into_region`] run it.
///
/// Each of them binds the rows, unless [`Fetch::of_released`] was called, and fetches them. Errors that are safe to retry
/// are retried until the deadline; then `RangeUnavailable` names the coordinates that are missing. A quota that is not free
/// again before the deadline is returned at once. After an error the destination holds some of the rows' values, and the
/// rows that were bound stay bound.
#[must_use = "a fetch does nothing until its destination is given"]
#[derive(Debug)]
pub struct Fetch<'a> {
    client: &'a Client,
    request: FetchRequest,
    released: Option<ReleasedRows>,
}

/// Where a fetch writes its rows.
enum Destination<'a> {
    /// Values of the element type, row after row of the request's range.
    Slice(&'a mut [u8], ElementType),
    /// Slots of a region.
    Region(&'a mut Region, Placement),
}

impl Client {
    /// Begins a fetch of rows. The returned builder's last call takes the destination.
    pub fn fetch(&self, request: FetchRequest) -> Fetch<'_> {
        Fetch { client: self, request, released: None }
    }
}

impl<'a> Fetch<'a> {
    /// Fetches rows that are bound already: they are among those that [`Client::bind`] returned.
    pub fn of_released(self, released: ReleasedRows) -> Self {
        Self { released: Some(released), ..self }
    }

    /// Fetches into `out`: rows × coordinates values, row after row.
    ///
    /// # Errors
    /// `InvalidArgument` where `out` has another length, and `GridRowsAreIntegers` for a job whose plan is on a grid, before
    /// anything is bound.
    pub async fn into_slice(self, out: &mut [f32]) -> Result<()> {
        self.into_bytes(bytemuck::cast_slice_mut(out), ElementType::F32).await
    }

    /// Fetches into `out`, each value rounded to bf16 by the worker: the upper half of an f32.
    ///
    /// # Errors
    /// As of [`Fetch::into_slice`].
    pub async fn into_bf16(self, out: &mut [u16]) -> Result<()> {
        self.into_bytes(bytemuck::cast_slice_mut(out), ElementType::Bf16).await
    }

    /// Fetches rows of a job whose plan is on a grid into `out`, whole numbers in steps of the grid.
    ///
    /// # Errors
    /// `InvalidArgument` where `out` has another length, and for a job whose rows are f32, before anything is bound.
    pub async fn into_integers(self, out: &mut [i32]) -> Result<()> {
        self.into_bytes(bytemuck::cast_slice_mut(out), ElementType::I32).await
    }

    /// Fetches into the slots from `slot` on of a region that holds the request's range.
    ///
    /// # Errors
    /// `InvalidArgument` where rows or range don't fit into the region, before anything is bound.
    pub async fn into_region(self, region: &mut Region, slot: u32) -> Result<()> {
        let placement = region.ready_for(self.request.rows, self.request.range, slot)?;
        self.run(Destination::Region(region, placement)).await
    }

    async fn into_bytes(self, out: &mut [u8], element: ElementType) -> Result<()> {
        let values = u128::from(self.request.rows.len()) * u128::from(self.request.range.len());
        if out.len() as u128 != values * element.bytes() as u128 {
            let given = out.len() / element.bytes();
            return Err(ServiceError::invalid("out", format!("{given} values"), format!("{values} values")));
        }
        self.run(Destination::Slice(out, element)).await
    }

    /// Runs the fetch in a span of its own. It is boxed, so that it is compiled here and not in every caller.
    fn run<'b>(self, destination: Destination<'b>) -> BoxFuture<'b, Result<()>>
    where
        'a: 'b,
    {
        let FetchRequest { job, branch, rows, range, .. } = &self.request;
        let span = trace_span!(
            target: SPANS, "fetch", otel.kind = "client", %job, branch, first_row = rows.start, rows = rows.len(),
            coordinates = range.len()
        );
        // Binding and every slice belong to one trace: the caller's, or a new one.
        let context = TraceContext::of(&span, TraceContext::current());
        context.scope(self.copy_chunks(destination).instrument(span)).boxed()
    }

    async fn copy_chunks(self, mut destination: Destination<'_>) -> Result<()> {
        let Self { client, request, released } = self;
        let began = Instant::now();
        let bound = BoundRows::new(client, &request);
        let FetchRequest { job, branch, rows, range, deadline, .. } = request;
        let released = match released {
            Some(released) => released,
            None => timeout_at(deadline, async {
                bound.check_element(destination.element()).await?;
                bound.bind_with_retry(deadline).await
            })
            .await
            .map_err(|_| {
                let waited_ms = began.elapsed().as_millis() as u64;
                ServiceError::range_unavailable(&job, vec![range], waited_ms)
            })??,
        };
        let slices = SliceRequest {
            job,
            branch,
            tile: Tile { rows, range },
            released,
            began,
            deadline,
            element: destination.element(),
            region: destination.placement(),
        };
        let mut chunks = stream_chunks(client.connections().clone(), Arc::new(bound), slices);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            match &mut destination {
                Destination::Slice(out, _) => place(&chunk, rows, range, out)?,
                // The worker has written the values itself.
                Destination::Region(..) if chunk.head.data_len == 0 => {}
                Destination::Region(region, placement) => region.place(&chunk, placement)?,
            }
        }
        Ok(())
    }
}

impl Destination<'_> {
    fn element(&self) -> ElementType {
        match self {
            Self::Slice(_, element) => *element,
            Self::Region(region, _) => region.layout().element,
        }
    }

    fn placement(&self) -> Option<Placement> {
        match self {
            Self::Slice(..) => None,
            Self::Region(_, placement) => Some(placement.clone()),
        }
    }
}

/// Copies the chunk's bytes to their place in `out`, which holds rows of `range` one after the other.
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
