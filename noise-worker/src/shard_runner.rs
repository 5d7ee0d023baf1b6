//! One shard without leases and without gRPC: restored, generated ahead, and read part by part. Noise ranks under MPI run
//! their shards by it; the code that restores, generates and replays is that of a worker.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use noise_kernel::{History, JobKey};
use plan::Plan;
use proto::{Commitment, CoordinateRange, Result, ServiceError, model::LeaseGrant};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    generation_spec::GenerationSpec,
    limits::Limits,
    producer::produce_rows,
    release_log::{ReleaseLog, ReleasedRow},
    replay::{Replay, piece_len},
    restore::restore,
    shard::{Shard, row::Row},
    snapshot::{self, Snapshot},
};

/// A shard that is being generated. Dropping it ends the generation.
pub struct ShardRunner {
    shard: Arc<Shard>,
    spec: GenerationSpec,
    source: ShardSource,
    /// Continues from one old row to the next without starting over.
    replay: Mutex<Replay>,
}

/// The inputs that a shard is generated from, on any branch of its job.
#[derive(Clone)]
pub struct ShardSource {
    /// The plan of the job.
    pub plan: Arc<Plan>,
    /// The key of the job.
    pub key: JobKey,
    /// The threads and the memory to use.
    pub limits: Arc<Limits>,
    /// The log in which every row is recorded before it is released.
    pub release_log: Arc<ReleaseLog>,
    /// The epoch of the ledger under which the shard is granted.
    pub epoch: u64,
    /// The time that a row may take.
    pub row_timeout: Duration,
}

impl ShardRunner {
    /// Restores the shard of `grant` from the newest checkpoint that is whole, else from the key, and begins to generate its
    /// rows. To be called within a runtime. Fails where the plan or the key is not the one that the grant names.
    pub async fn start(grant: LeaseGrant, source: ShardSource) -> anyhow::Result<Arc<Self>> {
        let limits = &source.limits;
        let history = History::Auto { limit_bytes: limits.history_bytes };
        let spec = GenerationSpec::for_grant(&source.plan, &source.key, &grant)?
            .with_backend(limits.backend, history)?;
        let (generator, window) = restore(&grant, &spec, limits).await.context("restore the shard")?;
        let shard = Shard::new(grant);
        let history_bytes = generator.history_bytes() as u64;
        *shard.generator.lock().await = Some(generator);
        shard.ready(spec.clone(), window, history_bytes);
        node::process::runtime::spawn(produce_rows(shard.clone(), limits.clone()));
        Ok(Arc::new(Self { shard, spec, source, replay: Mutex::default() }))
    }

    /// Returns the same shard on the branch of `grant`. Ends this one first, since two states may not fit: nothing may be
    /// requested of it any more.
    pub async fn on_branch(&self, grant: LeaseGrant) -> anyhow::Result<Arc<Self>> {
        self.shard.cancelled.cancel();
        self.shard.generator.lock().await.take();
        let branch = (grant.identity(), grant.branch());
        self.source.release_log.observe(grant.ledger, self.source.epoch, vec![branch]).await?;
        Self::start(grant, self.source.clone()).await
    }

    /// Returns the grant of the shard.
    pub fn grant(&self) -> &LeaseGrant {
        self.shard.grant()
    }

    /// Returns the number of rows generated beyond the highest that was requested.
    pub fn rows_ahead(&self) -> u64 {
        self.shard.rows_ahead()
    }

    /// Returns a part of a row that is bound to `commitment`, as little-endian values: the row's own memory where it is in the
    /// window. Records the row in the release log first. Fails where the log refuses it, or after the row timeout.
    pub async fn part(&self, row: u64, commitment: Commitment, range: CoordinateRange) -> Result<Bytes> {
        let grant = self.shard.grant();
        let released = ReleasedRow { branch: grant.lineage.branch_of(row), row, commitment };
        let log = self.source.release_log.clone();
        log.record(grant.identity(), grant.branch(), vec![released]).await?;
        let found = self.shard.row(row, Instant::now() + self.source.row_timeout).await?;
        self.source.limits.row_check.ensure_sound()?;
        self.shard.mark_released(row);
        match found {
            Some(found) => {
                let [from, to] = [range.start, range.end].map(|at| (at - grant.range.start) as usize * 4);
                Ok(found.bytes().slice(from..to))
            }
            None => self.replay(row, range).await,
        }
    }

    /// Resumes generation after a part is delivered.
    pub fn row_done(&self) {
        self.shard.row_done();
    }

    async fn replay(&self, row: u64, range: CoordinateRange) -> Result<Bytes> {
        let mut replay = self.replay.lock().await;
        let mut values: Vec<f32> = Vec::new();
        let len = range.len() as usize;
        values.try_reserve_exact(len).map_err(|_| ServiceError::ResourceExhausted {
            what: "memory for a row that is replayed".into(),
            limit: format!("{} bytes", 4 * len),
        })?;
        let mut start = range.start;
        while start < range.end {
            let end = (start + piece_len(&self.spec)).min(range.end);
            let piece = CoordinateRange { start, end };
            values.extend(replay.row(&self.spec, &self.source.limits, row, piece).await?);
            start = end;
        }
        Ok(Row::new(values).bytes())
    }

    /// Writes the shard to `object` of its grant's checkpoint store.
    pub async fn snapshot(&self, object: &str) -> Result<Snapshot> {
        snapshot::take(&self.shard, &self.source.limits, object).await
    }
}

impl Drop for ShardRunner {
    fn drop(&mut self) {
        self.shard.cancelled.cancel();
    }
}
