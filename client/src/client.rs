//! The training job's side: bind, fetch, put together.

use std::sync::Arc;

use futures::future::BoxFuture;
use node::trace_context::TraceContext;
use proto::{Commitment, CoordinateRange, JobId, ReleaseToken, Result, RowRange, ServiceError, pb};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::StreamExt;

use crate::connections::from_status;
use crate::{Connections, Delays, Jobs, Next, Part, Routing, SliceRequest, Source, after, stream_chunks};

/// Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    coordinator: String,
    connections: Connections,
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

impl Client {
    /// Checks the URL; connects on the first call. Must be called inside a tokio runtime.
    pub fn connect(coordinator: &str) -> Result<Self> {
        Self::with_connections(coordinator, Connections::new())
    }

    pub fn with_connections(coordinator: &str, connections: Connections) -> Result<Self> {
        connections.channel(coordinator)?;
        Ok(Self { coordinator: coordinator.to_owned(), connections })
    }

    pub fn jobs(&self) -> Jobs {
        Jobs::new(self.coordinator.clone(), self.connections.clone())
    }

    pub async fn routing(&self, job: &JobId) -> Result<Routing> {
        let request = pb::GetRoutingRequest { job: job.to_string() };
        let answer = self.connections.noise(&self.coordinator)?.get_routing(request).await;
        answer.map_err(from_status)?.into_inner().try_into()
    }

    /// Binds all of the rows or none, durably; one token a row. The same commitments again are answered alike.
    pub async fn bind(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        commitments: &[Commitment],
    ) -> Result<Vec<ReleaseToken>> {
        let request = pb::BindRequest {
            job: job.to_string(),
            branch,
            rows: Some(rows.into()),
            commitments: commitments.iter().map(|commitment| commitment.0.to_vec()).collect(),
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
        let FetchRequest { rows, range, .. } = request;
        let values = u128::from(rows.len()) * u128::from(range.len());
        if out.len() as u128 != values {
            return Err(ServiceError::invalid(
                "out",
                format!("{} values", out.len()),
                format!("{values} values"),
            ));
        }
        // Binding and every slice belong to one trace: the caller's, or a new one.
        let trace = TraceContext::current().unwrap_or_else(TraceContext::root);
        trace
            .scope(async {
                let mut chunks = self.fetch_chunks(request).await?;
                while let Some(chunk) = chunks.next().await {
                    place(&chunk?, rows, range, out)?;
                }
                Ok(())
            })
            .await
    }

    /// As [`Client::fetch_into`], but hands on the checked chunks as they come, in any order.
    pub async fn fetch_chunks(
        &self,
        request: FetchRequest,
    ) -> Result<impl tokio_stream::Stream<Item = Result<pb::Chunk>> + Send + use<>> {
        let began = Instant::now();
        let FetchRequest { job, branch, rows, range, commitments, deadline } = request;
        let bound = BoundRows { client: self.clone(), job: job.clone(), branch, rows, commitments };
        let tokens = match timeout_at(deadline, bound.bind_until_it_works()).await {
            Ok(bound) => bound?,
            Err(_) => {
                let waited_ms = began.elapsed().as_millis() as u64;
                return Err(ServiceError::RangeUnavailable {
                    job: job.to_string(),
                    missing: vec![range],
                    waited_ms,
                });
            }
        };
        let request = SliceRequest { job, branch, part: Part { rows, range }, tokens, began, deadline };
        Ok(stream_chunks(self.connections.clone(), Arc::new(bound), request))
    }
}

/// Little-endian bytes to their place in `out`.
fn place(chunk: &pb::Chunk, rows: RowRange, range: CoordinateRange, out: &mut [f32]) -> Result<()> {
    let at = (chunk.row - rows.start) * range.len() + (chunk.start - range.start);
    let (values, _) = chunk.data.as_chunks::<4>();
    let place = out.get_mut(at as usize..at as usize + values.len());
    let place = place.ok_or_else(|| ServiceError::internal("a chunk lies outside of the buffer"))?;
    place.iter_mut().zip(values).for_each(|(to, from)| *to = f32::from_le_bytes(*from));
    Ok(())
}

struct BoundRows {
    client: Client,
    job: JobId,
    branch: u64,
    rows: RowRange,
    commitments: Vec<Commitment>,
}

impl BoundRows {
    async fn bind(&self) -> Result<Vec<ReleaseToken>> {
        self.client.bind(&self.job, self.branch, self.rows, &self.commitments).await
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
        Box::pin(self.client.routing(&self.job))
    }

    fn tokens(&self) -> BoxFuture<'_, Result<Vec<ReleaseToken>>> {
        Box::pin(self.bind())
    }
}

#[cfg(test)]
mod tests {
    use proto::chunk_of;

    use super::*;

    #[test]
    fn chunks_land_at_their_row_and_coordinate() {
        let (rows, range) = (RowRange { start: 3, end: 5 }, CoordinateRange { start: 10, end: 13 });
        let bytes: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut out = [0.0; 6];
        place(&chunk_of(4, 11, bytes.clone().into()), rows, range, &mut out).unwrap();
        assert_eq!(out, [0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
        assert!(place(&chunk_of(4, 12, bytes.into()), rows, range, &mut out).is_err());
    }
}
