//! Checkpoints of whole jobs: every shard's piece first, the manifest next, the ledger's entry last. A checkpoint that
//! misses any of them does not exist.

use std::sync::atomic::Ordering;
use std::time::Duration;

use checkpoint_store::CheckpointStore;
use client::{Route, from_status};
use futures::{StreamExt, TryStreamExt, stream};
use ledger::{JobRecord, JobState};
use metrics::{counter, gauge, histogram};
use proto::{CheckpointRecord, piece_object};
use proto::{JobId, Result, ServiceError, WorkerId, model::CheckpointPiece, pb};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::cluster::JobView;
use crate::coordinator::Coordinator;
use crate::metric_definitions::{
    CHECKPOINT_BYTES, CHECKPOINT_INTERVAL, CHECKPOINT_SECONDS, CHECKPOINTS_FAILED,
};
use crate::pace::Cost;

const PIECES_AT_ONCE: usize = 16;
/// A checkpoint's number is that of the coordinator's epoch, and of those that it has begun.
const EPOCH_SHIFT: u32 = 24;
/// Hundreds of gigabytes at disk speed; a worker that is lost is noticed long before.
const LONGEST_PIECE: Duration = Duration::from_secs(1800);

impl Coordinator {
    /// Writes a checkpoint of every shard now. Any shard that fails fails it whole.
    pub async fn checkpoint(&self, job: &JobId) -> Result<pb::Checkpoint> {
        let turn = self.turn_to_checkpoint(job).await?;
        self.checkpoint_in(turn, job).await
    }

    /// Of one job there is one checkpoint at a time.
    pub async fn turn_to_checkpoint(&self, job: &JobId) -> Result<OwnedMutexGuard<()>> {
        let one_at_a_time = self.cluster().job(job)?.checkpointing.clone();
        Ok(one_at_a_time.lock_owned().await)
    }

    /// Its entry in the ledger and what memory says must not part: not to be left half way, but by the process's end.
    pub async fn checkpoint_in(&self, _turn: OwnedMutexGuard<()>, job: &JobId) -> Result<pb::Checkpoint> {
        let began = Instant::now();
        let Some(store) = &self.store else {
            return Err(ServiceError::JobState {
                job: job.to_string(),
                state: "on a coordinator without a checkpoint store".into(),
                allowed: "checkpoints where --checkpoint-url names a store".into(),
            });
        };
        self.cluster().job_mut(job)?.attempted = began;
        let written = self.write_checkpoint(store, job).await;
        self.attempted(job, began);
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                counter!(CHECKPOINTS_FAILED).increment(1);
                warn!(%job, %error, "checkpoint failed; the one before stays the newest");
                self.sweep(store, job).await;
                return Err(error);
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        histogram!(CHECKPOINT_SECONDS).record(seconds);
        gauge!(CHECKPOINT_BYTES).set(written.bytes as f64);
        let next = self.cluster().job(job).ok().and_then(|view| self.checkpoint_interval(view));
        gauge!(CHECKPOINT_INTERVAL).set(next.unwrap_or_default().as_secs_f64());
        info!(
            %job, id = written.id, next_row = written.next_row, bytes = written.bytes, seconds,
            next_in = ?next, "checkpoint written"
        );
        self.drop_old_checkpoints(store, job).await;
        self.sweep(store, job).await;
        Ok(pb::Checkpoint {
            job: job.to_string(),
            id: written.id,
            next_row: written.next_row,
            bytes: written.bytes,
            shards: written.pieces.len() as u32,
            seconds,
        })
    }

    /// The next one is due an interval after the beginning of this one. Where writing took longer than half of that, half an
    /// interval lies between the two: thousands of shards may take an hour.
    fn attempted(&self, job: &JobId, began: Instant) {
        let mut cluster = self.cluster();
        let Ok(view) = cluster.job_mut(job) else { return };
        let pause = self.checkpoint_interval(view).unwrap_or_default() / 2;
        view.attempted = Instant::now().checked_sub(pause).map_or(began, |at| at.max(began));
    }

    async fn write_checkpoint(&self, store: &CheckpointStore, job: &JobId) -> Result<CheckpointRecord> {
        let (record, bound_then) = {
            let mut cluster = self.cluster();
            let view = cluster.job_mut(job)?;
            if view.record.state != JobState::Running {
                return Err(view.wrong_state("running, to be checkpointed"));
            }
            view.unwritten = view.shards.iter().map(|shard| shard.record.shard).collect();
            (view.record.clone(), view.bound.next_row)
        };
        let _held_back = HeldBack { coordinator: self, job };
        let routes = self.ready_routes(job).await?;
        let id = self.new_checkpoint_id();
        let objects: Vec<_> =
            routes.into_iter().map(|(route, at)| (piece_object(job, id, route.range), route, at)).collect();
        let calls = objects.iter().map(|(object, route, at)| self.write_piece(job, object, route, at));
        // Without boxing, the compiler can't see that a stream of borrowing futures is Send.
        let calls: Vec<futures::future::BoxFuture<'_, _>> = calls.map(|call| Box::pin(call) as _).collect();
        let pieces: Result<Vec<_>> = stream::iter(calls).buffered(PIECES_AT_ONCE).try_collect().await;
        let pieces = pieces?;
        let taken = Taken::of(pieces.iter().map(|(_, answer)| answer), bound_then);
        let checkpoint = checkpoint_of(&record, id, pieces);
        self.publish(store, &checkpoint).await?;
        let mut cluster = self.cluster();
        let view = cluster.job_mut(job)?;
        if view.is_served() {
            view.cost = Some(taken.cost(view));
            view.written = Some((Instant::now(), bound_then));
            view.checkpoints.insert(0, checkpoint.clone());
        }
        Ok(checkpoint)
    }

    /// Never used twice, also after a failure and a restart: a late write of a given-up piece hits nothing.
    fn new_checkpoint_id(&self) -> u64 {
        let count = self.next_checkpoint.fetch_add(1, Ordering::Relaxed) + 1;
        self.epoch.saturating_mul(1 << EPOCH_SHIFT).saturating_add(count)
    }

    pub fn is_of_later_epoch(&self, checkpoint: u64) -> bool {
        checkpoint >> EPOCH_SHIFT > self.epoch
    }

    async fn write_piece(
        &self,
        job: &JobId,
        object: &str,
        route: &Route,
        (endpoint, worker): &(String, WorkerId),
    ) -> Result<(CheckpointPiece, pb::SnapshotResponse)> {
        let request = pb::SnapshotRequest {
            job: job.to_string(),
            shard: route.shard,
            lease_epoch: route.lease_epoch,
            object: object.to_owned(),
        };
        let mut shards = self.connections.shards(endpoint, worker)?;
        let answer = timeout(LONGEST_PIECE, shards.snapshot(request)).await.map_err(|_| {
            ServiceError::Unavailable {
                what: format!("a checkpoint of shard {} within {LONGEST_PIECE:?}", route.shard),
            }
        })?;
        let answer = answer.map_err(from_status)?.into_inner();
        let piece = pb::CheckpointPiece {
            object: object.to_owned(),
            range: Some(route.range.into()),
            next_row: answer.next_row,
            sha256: answer.sha256.clone(),
        };
        self.cluster().written(job, Some(route.shard));
        Ok((piece.try_into()?, answer))
    }

    async fn publish(&self, store: &CheckpointStore, checkpoint: &CheckpointRecord) -> Result<()> {
        store.write_manifest(checkpoint).await?;
        let record = checkpoint.clone();
        self.with_ledger(move |ledger| ledger.add_checkpoint(&record)).await
    }
}

/// Shards of the job wait with changing hands for their pieces; for none when this is gone, whatever became of them.
struct HeldBack<'a> {
    coordinator: &'a Coordinator,
    job: &'a JobId,
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.coordinator.cluster().written(self.job, None);
    }
}

/// What the slowest shard needed.
struct Taken {
    write: Duration,
    row: Duration,
    bound_then: u64,
}

impl Taken {
    fn of<'a>(answers: impl Iterator<Item = &'a pb::SnapshotResponse>, bound_then: u64) -> Self {
        let (write, row) = answers.fold((0f64, 0f64), |(write, row), answer| {
            (write.max(answer.seconds), row.max(answer.row_seconds))
        });
        // What a worker says may be anything.
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Self { write: time(write), row: time(row), bound_then }
    }

    /// Replay is as slow as the job itself, until two checkpoints show how fast it moves.
    fn cost(&self, view: &JobView) -> Cost {
        let measured = view.written.and_then(|(when, bound_before)| {
            let rows = self.bound_then.checked_sub(bound_before).filter(|&rows| rows > 0)?;
            let replay = self.row.as_secs_f64() * rows as f64;
            (replay > 0.0).then(|| replay / when.elapsed().as_secs_f64().max(1e-3))
        });
        Cost { write: self.write, replay_rate: measured.unwrap_or(1.0) }
    }
}

fn checkpoint_of(
    record: &JobRecord,
    id: u64,
    pieces: Vec<(CheckpointPiece, pb::SnapshotResponse)>,
) -> CheckpointRecord {
    CheckpointRecord {
        job: record.job.clone(),
        id,
        branch: record.branch,
        plan_digest: record.plan_digest,
        next_row: pieces.iter().map(|(piece, _)| piece.next_row).min().unwrap_or(0),
        bytes: pieces.iter().map(|(_, answer)| answer.bytes).sum(),
        pieces: pieces.into_iter().map(|(piece, _)| piece).collect(),
    }
}
