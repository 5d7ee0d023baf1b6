//! One `FetchSlice` call to one worker: every chunk is checked before it is handed on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::{CoordinateRange, JobId, ReleaseToken, Result, RowRange, ServiceError, check_chunk, pb};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;

use crate::connections::from_status;
use crate::{Assembly, Connections, Part, Route, Source};

/// After this long without a byte, ask whether the worker still holds the shard: a frozen process keeps its
/// connection open long after its lease is gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the slices of one fetch share.
pub(crate) struct Shared {
    pub connections: Connections,
    pub source: Arc<dyn Source>,
    pub job: JobId,
    pub branch: u64,
    /// First row of the fetch, to which tokens[0] belongs.
    pub first_row: u64,
    pub deadline: Instant,
    pub assembly: Mutex<Assembly>,
    pub chunks: mpsc::Sender<Result<pb::Chunk>>,
}

impl Shared {
    pub fn assembly(&self) -> MutexGuard<'_, Assembly> {
        self.assembly.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a chunk as arrived and hands it on, in one step: a task that is stopped has done both or neither.
    async fn deliver(&self, chunk: pb::Chunk, part: Part) -> Result<()> {
        let range = checked_range(&chunk, part)?;
        let Ok(permit) = self.chunks.reserve().await else { return Err(ServiceError::Draining) };
        self.assembly().accept(chunk.row, range)?;
        permit.send(Ok(chunk));
        Ok(())
    }
}

/// Fetches `part` by `route`. What arrived before an error has been handed on and stays good.
pub(crate) async fn fetch_slice(
    shared: Arc<Shared>,
    route: Route,
    part: Part,
    tokens: Arc<[ReleaseToken]>,
) -> Result<()> {
    let Some(endpoint) = route.endpoint.clone() else {
        return Err(ServiceError::NotOwner { job: shared.job.to_string(), shard: route.shard });
    };
    let outcome = read_slice(&shared, &endpoint, &route, part, &tokens).await;
    if matches!(outcome, Err(ServiceError::Unavailable { .. })) {
        shared.connections.forget(&endpoint);
    }
    outcome
}

async fn read_slice(
    shared: &Shared,
    endpoint: &str,
    route: &Route,
    part: Part,
    tokens: &[ReleaseToken],
) -> Result<()> {
    let mut shards = shared.connections.shards(endpoint)?;
    let call = shards.fetch_slice(request(shared, route, part, tokens)?);
    tokio::pin!(call);
    let mut stream = loop {
        match timeout_at(patience(), &mut call).await {
            Ok(answer) => break answer.map_err(from_status)?.into_inner(),
            Err(_) => still_routed(shared, route).await?,
        }
    };
    while let Some(chunk) = next_chunk(shared, route, &mut stream).await? {
        shared.deliver(chunk, part).await?;
    }
    if shared.assembly().gaps(part).is_empty() {
        return Ok(());
    }
    Err(ServiceError::Unavailable {
        what: format!("the rest of shard {} (its stream ended early)", route.shard),
    })
}

async fn next_chunk(
    shared: &Shared,
    route: &Route,
    stream: &mut Streaming<pb::Chunk>,
) -> Result<Option<pb::Chunk>> {
    loop {
        match timeout_at(patience(), stream.message()).await {
            Ok(message) => return message.map_err(from_status),
            Err(_) => still_routed(shared, route).await?,
        }
    }
}

fn patience() -> Instant {
    Instant::now() + PATIENCE
}

/// An unreachable coordinator is no reason to leave a worker that may only be slow.
async fn still_routed(shared: &Shared, route: &Route) -> Result<()> {
    match shared.source.routing().await {
        Ok(routing) if !routing.still_has(route) => {
            Err(ServiceError::NotOwner { job: shared.job.to_string(), shard: route.shard })
        }
        _ => Ok(()),
    }
}

fn request(
    shared: &Shared,
    route: &Route,
    part: Part,
    tokens: &[ReleaseToken],
) -> Result<pb::FetchSliceRequest> {
    let left = shared.deadline.saturating_duration_since(Instant::now()).as_millis();
    Ok(pb::FetchSliceRequest {
        job: shared.job.to_string(),
        branch: shared.branch,
        shard: route.shard,
        lease_epoch: route.lease_epoch,
        rows: Some(part.rows.into()),
        range: Some(part.range.into()),
        tokens: tokens_of(tokens, shared.first_row, part.rows)?.iter().map(ReleaseToken::to_bytes).collect(),
        // 0 would mean the server's default.
        deadline_ms: u64::try_from(left).unwrap_or(u64::MAX).max(1),
    })
}

fn tokens_of(tokens: &[ReleaseToken], first_row: u64, rows: RowRange) -> Result<&[ReleaseToken]> {
    let from = rows.start.saturating_sub(first_row) as usize;
    tokens
        .get(from..from + rows.len() as usize)
        .ok_or_else(|| ServiceError::internal(format!("{} tokens do not cover rows {rows}", tokens.len())))
}

fn checked_range(chunk: &pb::Chunk, part: Part) -> Result<CoordinateRange> {
    check_chunk(chunk, part.rows)?;
    let refused = |what: String| ServiceError::Unavailable { what };
    let range = chunk.start.checked_add(chunk.data.len() as u64 / 4);
    let range = range.and_then(|end| CoordinateRange::new(chunk.start, end).ok());
    match range {
        Some(range) if part.range.contains(&range) => Ok(range),
        Some(range) => Err(refused(format!("a sound answer (coordinates {range} were not asked for)"))),
        None => Err(refused(format!("a sound answer (chunk at coordinate {} is empty)", chunk.start))),
    }
}

#[cfg(test)]
mod tests {
    use proto::chunk_of;

    use super::*;

    #[test]
    fn chunks_outside_the_part_or_empty_are_refused() {
        let part =
            Part { rows: RowRange { start: 0, end: 1 }, range: CoordinateRange { start: 10, end: 20 } };
        let chunk = |start, values: usize| chunk_of(0, start, vec![0; values * 4].into());
        assert_eq!(checked_range(&chunk(10, 10), part).unwrap(), part.range);
        for bad in [chunk(9, 2), chunk(19, 2), chunk(12, 0), chunk(u64::MAX, 1)] {
            assert!(checked_range(&bad, part).unwrap_err().retry_safe());
        }
        let altered = pb::Chunk { crc32c: 1, ..chunk(10, 10) };
        assert!(checked_range(&altered, part).unwrap_err().retry_safe());
    }

    #[test]
    fn each_row_keeps_its_token() {
        let key = proto::ReleaseKey::new([1; 32]);
        let job = JobId::new("j").unwrap();
        let commitment = proto::Commitment::of_text("c");
        let tokens: Vec<_> = (3..8).map(|row| key.sign(&job, 0, row, commitment)).collect();
        assert_eq!(tokens_of(&tokens, 3, RowRange { start: 5, end: 7 }).unwrap(), &tokens[2..4]);
        assert!(tokens_of(&tokens, 3, RowRange { start: 5, end: 9 }).is_err());
    }
}
