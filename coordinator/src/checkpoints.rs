//! Checkpoints of whole jobs: every shard's piece first, the manifest next, the ledger's entry last. A checkpoint that
//! misses any of them does not exist.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::{Route, from_status};
use futures::{StreamExt, TryStreamExt, stream};
use ledger::{CheckpointRecord, CheckpointStore, JobRecord, JobState, piece_object};
use metrics::{counter, gauge, histogram};
use proto::model::CheckpointPiece;
use proto::{JobId, Result, ServiceError, pb};
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::coordinator::Coordinator;
use crate::metric_definitions::{CHECKPOINT_BYTES, CHECKPOINT_SECONDS, CHECKPOINTS_FAILED};

const PIECES_AT_ONCE: usize = 16;
/// Hundreds of gigabytes at disk speed; a worker that is lost is noticed long before.
const LONGEST_PIECE: Duration = Duration::from_secs(1800);

impl Coordinator {
    /// Writes a checkpoint of every shard now. Any shard that fails fails it whole.
    pub async fn checkpoint(&self, job: &JobId) -> Result<pb::Checkpoint> {
        let began = Instant::now();
        let Some(store) = &self.store else {
            return Err(ServiceError::JobState {
                job: job.to_string(),
                state: "on a coordinator without a checkpoint store".into(),
                allowed: "checkpoints where --checkpoint-url names a store".into(),
            });
        };
        let one_at_a_time = self.cluster().job(job)?.checkpointing.clone();
        let _writing = one_at_a_time.lock().await;
        let written = self.write_checkpoint(store, job).await.inspect_err(|error| {
            counter!(CHECKPOINTS_FAILED).increment(1);
            warn!(%job, %error, "checkpoint failed; the one before stays the newest");
        })?;
        let seconds = began.elapsed().as_secs_f64();
        histogram!(CHECKPOINT_SECONDS).record(seconds);
        gauge!(CHECKPOINT_BYTES).set(written.bytes as f64);
        info!(%job, id = written.id, next_row = written.next_row, bytes = written.bytes, seconds, "checkpoint written");
        self.drop_old_checkpoints(store, job).await;
        Ok(pb::Checkpoint {
            job: job.to_string(),
            id: written.id,
            next_row: written.next_row,
            bytes: written.bytes,
            shards: written.pieces.len() as u32,
            seconds,
        })
    }

    async fn write_checkpoint(&self, store: &CheckpointStore, job: &JobId) -> Result<CheckpointRecord> {
        let (record, bound_then) = {
            let cluster = self.cluster();
            let view = cluster.job(job)?;
            if view.record.state != JobState::Running {
                return Err(view.wrong_state("running, to be checkpointed"));
            }
            (view.record.clone(), view.bound.next_row)
        };
        let routes = self.ready_routes(job)?;
        let id = self.new_checkpoint_id();
        let objects: Vec<_> = routes
            .into_iter()
            .map(|(route, endpoint)| (piece_object(job, id, route.range), route, endpoint))
            .collect();
        let calls =
            objects.iter().map(|(object, route, endpoint)| self.write_piece(job, object, route, endpoint));
        // Without boxing, the compiler can't see that a stream of borrowing futures is Send.
        let calls: Vec<futures::future::BoxFuture<'_, _>> = calls.map(|call| Box::pin(call) as _).collect();
        let pieces: Result<Vec<_>> = stream::iter(calls).buffered(PIECES_AT_ONCE).try_collect().await;
        let checkpoint = match pieces {
            Ok(pieces) => checkpoint_of(&record, id, pieces),
            Err(error) => {
                let ranges = objects.iter().map(|(object, route, _)| (object.clone(), route.range));
                discard(store, &record, id, ranges).await;
                return Err(error);
            }
        };
        if let Err(error) = self.publish(store, &checkpoint).await {
            let ranges = checkpoint.pieces.iter().map(|piece| (piece.object.clone(), piece.range));
            discard(store, &record, id, ranges).await;
            return Err(error);
        }
        let mut cluster = self.cluster();
        let view = cluster.job_mut(job)?;
        if view.is_served() {
            view.written = Some((Instant::now(), bound_then));
            view.newest = Some(checkpoint.clone());
        }
        Ok(checkpoint)
    }

    /// Never used twice, also after a failure and a restart: a late write of a given-up piece hits nothing.
    fn new_checkpoint_id(&self) -> u64 {
        let count = self.next_checkpoint.fetch_add(1, Ordering::Relaxed) + 1;
        self.epoch.saturating_mul(1 << 24).saturating_add(count)
    }

    async fn write_piece(
        &self,
        job: &JobId,
        object: &str,
        route: &Route,
        endpoint: &str,
    ) -> Result<(CheckpointPiece, u64)> {
        let request = pb::SnapshotRequest {
            job: job.to_string(),
            shard: route.shard,
            lease_epoch: route.lease_epoch,
            object: object.to_owned(),
        };
        let mut shards = self.connections.shards(endpoint)?;
        let answer = timeout(LONGEST_PIECE, shards.snapshot(request)).await.map_err(|_| {
            ServiceError::Unavailable {
                what: format!("a checkpoint of shard {} within {LONGEST_PIECE:?}", route.shard),
            }
        })?;
        let pb::SnapshotResponse { next_row, bytes, sha256 } = answer.map_err(from_status)?.into_inner();
        let piece = pb::CheckpointPiece {
            object: object.to_owned(),
            range: Some(route.range.into()),
            next_row,
            sha256,
        };
        Ok((piece.try_into()?, bytes))
    }

    async fn publish(&self, store: &CheckpointStore, checkpoint: &CheckpointRecord) -> Result<()> {
        store.write_manifest(checkpoint).await?;
        let record = checkpoint.clone();
        self.with_ledger(move |ledger| ledger.add_checkpoint(&record)).await
    }

    async fn drop_old_checkpoints(&self, store: &CheckpointStore, job: &JobId) {
        let name = job.clone();
        let Ok(checkpoints) = self.with_ledger(move |ledger| ledger.checkpoints(&name)).await else { return };
        let keep = self.settings.keep_checkpoints.max(1);
        let old = checkpoints.len().saturating_sub(keep);
        for checkpoint in &checkpoints[..old] {
            self.drop_checkpoint(store, checkpoint).await;
        }
    }

    /// Objects before the entry: what could not be deleted is tried again next time. True when it is gone.
    async fn drop_checkpoint(&self, store: &CheckpointStore, checkpoint: &CheckpointRecord) -> bool {
        if let Err(error) = store.delete_checkpoint(checkpoint).await {
            warn!(job = %checkpoint.job, id = checkpoint.id, %error, "checkpoint could not be deleted");
            return false;
        }
        let (job, id) = (checkpoint.job.clone(), checkpoint.id);
        self.with_ledger(move |ledger| ledger.remove_checkpoint(&job, id)).await.is_ok()
    }

    /// All of the job's; how many are gone, and how many are left.
    pub async fn delete_checkpoints(&self, job: &JobId) -> (u64, u64) {
        let writing = self.cluster().job(job).map(|view| view.checkpointing.clone());
        let name = job.clone();
        let (Ok(writing), Some(store)) = (writing, &self.store) else { return (0, 0) };
        let _writing = writing.lock().await;
        let listed = self.with_ledger(move |ledger| ledger.checkpoints(&name)).await.unwrap_or_default();
        let (mut gone, mut left) = (0, 0);
        for checkpoint in &listed {
            match self.drop_checkpoint(store, checkpoint).await {
                true => gone += 1,
                false => left += 1,
            }
        }
        (gone, left)
    }

    /// Runs until shutdown: one after another, each job that has bound rows since its last checkpoint.
    pub async fn keep_checkpointing(self: Arc<Self>, shutdown: CancellationToken) {
        let every = self.settings.checkpoint_interval;
        if every.is_zero() || self.store.is_none() {
            return;
        }
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.reset();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            for job in self.jobs_due() {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    // The failure is logged and counted where it happens.
                    _logged = self.checkpoint(&job) => {}
                }
            }
        }
    }

    fn jobs_due(&self) -> Vec<JobId> {
        let cluster = self.cluster();
        let is_due = |view: &&crate::cluster::JobView| {
            let moved_on = view.written.is_none_or(|(_, next_row)| next_row != view.bound.next_row);
            view.record.state == JobState::Running && view.bound.next_row > 0 && moved_on
        };
        cluster.jobs().filter(is_due).map(|view| view.record.job.clone()).collect()
    }
}

fn checkpoint_of(record: &JobRecord, id: u64, pieces: Vec<(CheckpointPiece, u64)>) -> CheckpointRecord {
    CheckpointRecord {
        job: record.job.clone(),
        id,
        branch: record.branch,
        plan_digest: record.plan_digest,
        next_row: pieces.iter().map(|(piece, _)| piece.next_row).min().unwrap_or(0),
        bytes: pieces.iter().map(|(_, bytes)| bytes).sum(),
        pieces: pieces.into_iter().map(|(piece, _)| piece).collect(),
    }
}

/// What a failed checkpoint has left in the store. Nothing names these objects, so their digests don't matter.
async fn discard(
    store: &CheckpointStore,
    record: &JobRecord,
    id: u64,
    objects: impl Iterator<Item = (String, proto::CoordinateRange)>,
) {
    let piece = |(object, range)| (CheckpointPiece { object, range, next_row: 0, sha256: [0; 32] }, 0);
    let left = checkpoint_of(record, id, objects.map(piece).collect());
    if let Err(error) = store.delete_checkpoint(&left).await {
        warn!(job = %record.job, id, %error, "pieces of the failed checkpoint may remain in the store");
    }
}
