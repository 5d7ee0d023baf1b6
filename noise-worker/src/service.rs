//! What a worker does for others, whatever the transport: serve slices of released rows, write snapshots.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use proto::{CoordinateRange, JobId, Result, RowRange, ServiceError, model::FetchSlice, pb};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    clerk::Clerk,
    delivery::{Delivery, Slice},
    leases::Leases,
    marks::Released,
    metric_definitions as metric,
    regions::Regions,
    snapshot::{self, Snapshot},
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
        let leases = self.leases.clone();
        let regions = self.regions.clone();
        let chunk_bytes = self.chunk_bytes;
        let delivery = Delivery { slice, leases, regions, chunk_bytes, out: sender };
        tokio::spawn(node::telemetry::trace_context::carry(async move {
            let ended = tokio::select! {
                biased;
                // Nobody waits for the rest any more: it is not made, however much of it there is.
                () = delivery.out.closed() => return,
                ended = delivery.run() => ended,
            };
            if let Err(error) = ended {
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
        let (shard, clerk) = self.leases.shard(&job, shard, lease_epoch).map_err(|error| {
            // A lease that ended with its branch says so.
            self.leases.superseded(&job, branch).unwrap_or(error)
        })?;
        let grant = shard.grant();
        if !grant.range.contains(&range) {
            let allowed = format!("within the shard's {}", grant.range);
            return Err(ServiceError::invalid("range", range, allowed));
        }
        if branch < grant.branch() {
            return Err(self.leases.superseded(&job, branch).unwrap_or(ServiceError::Draining));
        }
        if branch > grant.branch() {
            return Err(ServiceError::invalid("branch", branch, grant.branch().to_string()));
        }
        check_tokens(&clerk, &job, branch, rows, range, &tokens)?;
        let released = rows.as_range().zip(&tokens).map(|(row, token)| Released {
            branch: grant.lineage.branch_of(row),
            row,
            commitment: token.commitment,
        });
        let released: Vec<_> = released.collect();
        self.leases.marks.check(&job, branch, &released)?;
        let wait = deadline_ms.map_or(DEFAULT_DEADLINE, Duration::from_millis).min(MAX_DEADLINE);
        let destination =
            target.map(|target| self.regions.destination(target, rows, range, element)).transpose()?;
        let asked = Instant::now();
        let deadline = asked + wait;
        Ok(Slice { shard, rows, released, range, element, destination, asked, deadline })
    }

    /// Writes the shard's state and the rows made ahead of release; making goes on meanwhile.
    pub async fn snapshot(&self, job: &JobId, shard: u32, epoch: u64, object: &str) -> Result<Snapshot> {
        let (shard, _) = self.leases.shard(job, shard, epoch).inspect_err(count)?;
        snapshot::take(&shard, &self.leases.limits, object).await.inspect_err(count)
    }
}

fn check_tokens(
    clerk: &Clerk,
    job: &JobId,
    branch: u64,
    rows: RowRange,
    range: CoordinateRange,
    tokens: &[proto::ReleaseToken],
) -> Result<()> {
    rows.as_range().zip(tokens).try_for_each(|(row, token)| clerk.check(job, branch, row, range, token))
}

fn count(error: &ServiceError) {
    metrics::counter!(metric::ERRORS, "kind" => error.kind()).increment(1);
}
