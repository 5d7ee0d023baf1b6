//! What a worker does for others, whatever the transport: serve slices of released rows, write snapshots.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ledger::{CheckpointStore, ShardHeader, Written};
use proto::{ElementType, JobId, ReleaseKey, Result, RowRange, ServiceError, model::FetchSlice, pb};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    delivery::{Delivery, Slice},
    leases::Leases,
    metric_definitions as metric,
    regions::Regions,
    row::Row,
};

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// The longest a request may ask to wait.
const MAX_DEADLINE: Duration = Duration::from_secs(600);

/// Chunks in flight to one request: bounds the memory of slow readers.
const QUEUE: usize = 4;

#[derive(Debug)]
pub struct NoiseService {
    leases: Arc<Leases>,
    regions: Arc<Regions>,
    chunk_bytes: usize,
    draining: AtomicBool,
}

impl NoiseService {
    pub fn new(leases: Arc<Leases>, regions: Arc<Regions>, chunk_bytes: usize) -> Arc<Self> {
        Arc::new(Self { leases, regions, chunk_bytes, draining: AtomicBool::new(false) })
    }

    /// New requests are refused from now on; those under way go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Chunks of the rows, in order of rows. Nothing is sent before all of the request has been checked.
    pub fn fetch_slice(self: &Arc<Self>, request: FetchSlice) -> Result<mpsc::Receiver<Result<pb::Chunk>>> {
        let slice = self.check(request).inspect_err(count)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (leases, regions, chunk_bytes) = (self.leases.clone(), self.regions.clone(), self.chunk_bytes);
        let delivery = Delivery { slice, leases, regions, chunk_bytes, out: sender };
        tokio::spawn(node::trace_context::carry(async move {
            if let Err(error) = delivery.run().await {
                count(&error);
                let _ = delivery.out.send(Err(error)).await;
            }
        }));
        Ok(receiver)
    }

    fn check(&self, request: FetchSlice) -> Result<Slice> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(ServiceError::Draining);
        }
        let FetchSlice { job, branch, shard, lease_epoch, rows, range, tokens, deadline_ms, element, target } =
            request;
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
        let destination =
            target.map(|target| self.regions.destination(target, rows, range, element)).transpose()?;
        Ok(Slice { shard, rows, range, element, destination, deadline: Instant::now() + wait })
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
            element: ElementType::F32,
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
