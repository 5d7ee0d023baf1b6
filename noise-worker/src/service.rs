//! The service of a worker, independent of the transport: it serves slices of released rows and writes snapshots.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use proto::{GrantedBranch, JobId, Result, ServiceError, SignedSnapshot, WorkerId, model::FetchSlice};
use tokio::time::{Instant, timeout};

use crate::{
    chunk_queue::{ChunkReceiver, chunk_queue},
    leases::Leases,
    metric_definitions as metric,
    orders::Orders,
    regions::Regions,
    release_log::ReleasedRow,
    shard::readers::reader_is_stalled,
    slice_stream::{Slice, SliceStream},
    snapshot::{self, Snapshot},
};

/// The time that a request without a deadline waits.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// The longest deadline of a request.
const MAX_DEADLINE: Duration = Duration::from_secs(600);

/// Chunks in flight to one request, which bounds the memory of slow readers.
const CHUNK_QUEUE: usize = 4;

/// A worker's service.
#[derive(Debug)]
pub struct NoiseService {
    leases: Arc<Leases>,
    regions: Arc<Regions>,
    chunk_bytes: usize,
    orders: Orders,
    draining: AtomicBool,
}

impl NoiseService {
    /// Serves the shards of `leases`, as the worker of this name.
    pub fn new(
        worker: WorkerId,
        leases: Arc<Leases>,
        regions: Arc<Regions>,
        chunk_bytes: usize,
    ) -> Arc<Self> {
        let orders = Orders::new(worker);
        Arc::new(Self { leases, regions, chunk_bytes, orders, draining: AtomicBool::new(false) })
    }

    /// Refuses new requests from now on. Those in progress continue.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns the chunks of the rows, in order of rows. Nothing is sent before the whole request has been checked.
    pub fn fetch_slice(self: &Arc<Self>, request: FetchSlice) -> Result<ChunkReceiver> {
        let slice = self.check(request).inspect_err(count)?;
        let (sender, receiver, recall) = chunk_queue(CHUNK_QUEUE);
        let leases = self.leases.clone();
        let regions = self.regions.clone();
        let chunk_bytes = self.chunk_bytes;
        let stream = SliceStream { slice, leases, regions, chunk_bytes, out: sender };
        tokio::spawn(node::telemetry::trace_context::carry(async move {
            let ended = tokio::select! {
                biased;
                // The reader has left: the rest is not generated.
                () = stream.out.closed() => return,
                ended = stream.run() => ended,
            };
            if let Err(error) = ended {
                count(&error);
                let patience = stream.leases.limits.reader_timeout;
                let stalled = reader_is_stalled(patience);
                let is_late =
                    error == stalled || timeout(patience, stream.out.send(Err(error))).await.is_err();
                if is_late {
                    recall.end(stalled);
                }
            }
        }));
        Ok(receiver)
    }

    fn check(&self, request: FetchSlice) -> Result<Slice> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(ServiceError::Draining);
        }
        let FetchSlice { job, branch, shard, lease_epoch, rows, range, token, deadline_ms, element, target } =
            request;
        let (shard, verifier) = self.leases.shard(&job, shard, lease_epoch).map_err(|error| {
            // The error for a lease that ended with its branch names the branch.
            self.leases.superseded(&job, branch).unwrap_or(error)
        })?;
        let grant = shard.grant();
        if !grant.range.contains(&range) {
            let allowed = format!("within the shard's {}", grant.range);
            return Err(ServiceError::invalid("range", range, allowed));
        }
        if let Some(spec) = shard.spec() {
            spec.element().check_request(element, &job)?;
        }
        if branch < grant.branch() {
            return Err(self.leases.superseded(&job, branch).unwrap_or(ServiceError::Draining));
        }
        if branch > grant.branch() {
            return Err(ServiceError::invalid("branch", branch, grant.branch().to_string()));
        }
        let of = GrantedBranch { job: &job, nonce: &grant.job_nonce, branch };
        verifier.check(of, rows, range, &token)?;
        let released = rows.as_range().zip(&token.commitments).map(|(row, commitment)| ReleasedRow {
            branch: grant.lineage.branch_of(row),
            row,
            commitment: *commitment,
        });
        let released: Vec<_> = released.collect();
        self.leases.release_log.check(&grant.identity(), branch, &released)?;
        let wait = deadline_ms.map_or(DEFAULT_DEADLINE, Duration::from_millis).min(MAX_DEADLINE);
        let destination =
            target.map(|target| self.regions.destination(target, rows, range, element)).transpose()?;
        let requested_at = Instant::now();
        let deadline = requested_at + wait;
        Ok(Slice { shard, rows, released, range, element, destination, requested_at, deadline })
    }

    /// Writes a snapshot that the coordinator ordered.
    pub async fn obey(&self, signed: &SignedSnapshot) -> Result<Snapshot> {
        let accepted = self.leases.verifier().and_then(|verifier| self.orders.accept(&verifier, signed));
        let order = accepted.inspect_err(count)?;
        self.snapshot(&order.job, order.shard, order.lease_epoch, &order.object).await
    }

    /// Writes the shard's state and the rows generated ahead. Generation continues meanwhile.
    pub(crate) async fn snapshot(
        &self,
        job: &JobId,
        shard: u32,
        epoch: u64,
        object: &str,
    ) -> Result<Snapshot> {
        let (shard, _) = self.leases.shard(job, shard, epoch).inspect_err(count)?;
        snapshot::take(&shard, &self.leases.limits, object).await.inspect_err(count)
    }
}

fn count(error: &ServiceError) {
    metrics::counter!(metric::ERRORS, "kind" => error.kind()).increment(1);
}
