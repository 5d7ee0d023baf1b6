//! What a worker does for others, whatever the transport: serve slices of released rows, write snapshots.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ledger::{CheckpointStore, ShardHeader, Written};
use proto::{
    CoordinateRange, DEFAULT_CHUNK_BYTES, JobId, ReleaseKey, Result, RowRange, ServiceError, chunk_of,
    model::FetchSlice, pb,
};
use tokio::sync::mpsc;

use crate::{
    leases::Leases,
    metric_definitions as metric,
    recipe::Recipe,
    replay::{self, Replay},
    row::Row,
    shard::Shard,
};

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// The longest a request may ask to wait.
const MAX_DEADLINE: Duration = Duration::from_secs(600);

/// Chunks in flight to one request: bounds the memory of slow readers.
const QUEUE: usize = 4;

#[derive(Debug)]
pub struct NoiseService {
    leases: Arc<Leases>,
    draining: AtomicBool,
}

/// A request whose every part has been checked.
struct Slice {
    shard: Arc<Shard>,
    rows: RowRange,
    range: CoordinateRange,
    deadline: Instant,
}

impl NoiseService {
    pub fn new(leases: Arc<Leases>) -> Arc<Self> {
        Arc::new(Self { leases, draining: AtomicBool::new(false) })
    }

    /// New requests are refused from now on; those under way go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Chunks of the rows, in order of rows. Nothing is sent before all of the request has been checked.
    pub fn fetch_slice(self: &Arc<Self>, request: FetchSlice) -> Result<mpsc::Receiver<Result<pb::Chunk>>> {
        let slice = self.check(request).inspect_err(count)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let service = self.clone();
        tokio::spawn(node::trace_context::carry(async move {
            if let Err(error) = service.send(slice, &sender).await {
                count(&error);
                let _ = sender.send(Err(error)).await;
            }
        }));
        Ok(receiver)
    }

    fn check(&self, request: FetchSlice) -> Result<Slice> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(ServiceError::Draining);
        }
        let FetchSlice { job, branch, shard, lease_epoch, rows, range, tokens, deadline_ms } = request;
        let (shard, release_key) = self.leases.shard(&job, shard, lease_epoch)?;
        let grant = shard.grant();
        if !grant.range.contains(&range) {
            let allowed = format!("within the shard's {}", grant.range);
            return Err(ServiceError::invalid("range", range, allowed));
        }
        if branch != grant.branch {
            return Err(ServiceError::invalid("branch", branch, grant.branch.to_string()));
        }
        check_tokens(&release_key, &job, branch, rows, &tokens)?;
        let wait = deadline_ms.map_or(DEFAULT_DEADLINE, Duration::from_millis).min(MAX_DEADLINE);
        Ok(Slice { shard, rows, range, deadline: Instant::now() + wait })
    }

    async fn send(&self, slice: Slice, out: &mpsc::Sender<Result<pb::Chunk>>) -> Result<()> {
        let mut replay = Replay::default();
        for row in slice.rows.as_range() {
            match slice.shard.row(row, slice.deadline).await? {
                Some(made) => self.send_made(&slice, row, &made, out).await?,
                None => self.send_replayed(&slice, row, &mut replay, out).await?,
            }
        }
        Ok(())
    }

    async fn send_made(
        &self,
        slice: &Slice,
        row: u64,
        made: &Row,
        out: &mpsc::Sender<Result<pb::Chunk>>,
    ) -> Result<()> {
        let from = (slice.range.start - slice.shard.grant().range.start) as usize * 4;
        let bytes = made.bytes().slice(from..from + slice.range.len() as usize * 4);
        self.send_bytes(slice, row, slice.range.start, bytes, out).await
    }

    async fn send_replayed(
        &self,
        slice: &Slice,
        row: u64,
        replay: &mut Replay,
        out: &mpsc::Sender<Result<pb::Chunk>>,
    ) -> Result<()> {
        let recipe: &Recipe = slice.shard.recipe().ok_or_else(|| slice.shard.not_owner())?;
        let mut start = slice.range.start;
        while start < slice.range.end {
            let end = (start + replay::piece_len(recipe)).min(slice.range.end);
            let values = replay.row(recipe, &self.leases.limits, row, CoordinateRange { start, end }).await?;
            self.send_bytes(slice, row, start, Row::new(values).bytes(), out).await?;
            start = end;
        }
        Ok(())
    }

    async fn send_bytes(
        &self,
        slice: &Slice,
        row: u64,
        start: u64,
        bytes: bytes::Bytes,
        out: &mpsc::Sender<Result<pb::Chunk>>,
    ) -> Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            // Looked at before every chunk: a lease can be lost in the middle of a row.
            if slice.shard.cancelled.is_cancelled() || !self.leases.valid() {
                return Err(slice.shard.not_owner());
            }
            let end = (at + DEFAULT_CHUNK_BYTES).min(bytes.len());
            slice.shard.mark_released(row);
            let chunk = chunk_of(row, start + at as u64 / 4, bytes.slice(at..end));
            metrics::counter!(metric::BYTES_SERVED).increment((end - at) as u64);
            // The reader is gone: nobody is left to tell.
            if out.send(Ok(chunk)).await.is_err() {
                return Ok(());
            }
            at = end;
        }
        Ok(())
    }

    /// Writes the shard's state and the rows made ahead of release; making goes on afterwards.
    pub async fn snapshot(
        &self,
        job: &JobId,
        shard: u32,
        epoch: u64,
        object: &str,
    ) -> Result<(u64, Written)> {
        let started = Instant::now();
        let (shard, _) = self.leases.shard(job, shard, epoch).inspect_err(count)?;
        let grant = shard.grant();
        if grant.store_url.is_empty() {
            return Err(ServiceError::Unavailable { what: "a checkpoint store".into() });
        }
        let store = CheckpointStore::open(&grant.store_url)?;
        let generator = shard.generator.lock().await;
        let (generator, recipe) = match (generator.as_ref(), shard.recipe()) {
            (Some(generator), Some(recipe)) => (generator, recipe),
            _ => return Err(ServiceError::Restoring { job: job.to_string(), shard: grant.shard }),
        };
        let (window_start, rows) = shard.window_rows();
        let header = ShardHeader {
            job: job.to_string(),
            branch: grant.branch,
            plan_digest: grant.plan_digest,
            key_commitment: grant.key_commitment,
            stream_version: noise_kernel::STREAM_VERSION,
            range: grant.range,
            next_row: generator.next_row(),
            window_start: if rows.is_empty() { generator.next_row() } else { window_start },
            block_state_len: (recipe.slots * noise_kernel::BLOCK) as u64,
        };
        let next_row = header.next_row;
        let rows: Vec<&[f32]> = rows.iter().map(Row::values).collect();
        let written = store.write_shard(object, header, generator.state(), &rows).await?;
        metrics::histogram!(metric::SNAPSHOT_SECONDS).record(started.elapsed());
        Ok((next_row, written))
    }
}

fn check_tokens(
    key: &ReleaseKey,
    job: &JobId,
    branch: u64,
    rows: RowRange,
    tokens: &[proto::ReleaseToken],
) -> Result<()> {
    rows.as_range().zip(tokens).try_for_each(|(row, token)| key.verify(job, branch, row, token))
}

fn count(error: &ServiceError) {
    metrics::counter!(metric::ERRORS, "kind" => error.kind()).increment(1);
}
