//! One checkpoint of a whole job: first every shard's piece, then the manifest, last the ledger's entry. A checkpoint
//! that lacks any of them does not exist.

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

use crate::checkpointing::interval::CheckpointCost;
use crate::cluster::{CheckpointMark, JobView};
use crate::coordinator::Coordinator;
use crate::metric_definitions::{
    CHECKPOINT_BYTES, CHECKPOINT_INTERVAL, CHECKPOINT_SECONDS, CHECKPOINTS_FAILED,
};

/// Pieces written at once.
const PIECES_AT_ONCE: usize = 16;
/// The time that one piece may take: enough for hundreds of gigabytes at disk speed. A lost worker is noticed long before.
const PIECE_TIMEOUT: Duration = Duration::from_secs(1800);

impl Coordinator {
    /// Writes a checkpoint of every shard now. Fails if any shard does.
    pub async fn checkpoint(&self, job: &JobId) -> Result<pb::Checkpoint> {
        let turn = self.turn_to_checkpoint(job).await?;
        self.write_in_turn(turn, job).await
    }

    /// Waits for this job's turn: it has one checkpoint at a time.
    pub async fn turn_to_checkpoint(&self, job: &JobId) -> Result<OwnedMutexGuard<()>> {
        let lock = self.cluster().job(job)?.checkpoint_lock.clone();
        Ok(lock.lock_owned().await)
    }

    /// Writes a checkpoint in the caller's turn. Must run to its end, so that the ledger's entry and memory agree; only
    /// the end of the process may interrupt it.
    pub async fn write_in_turn(&self, _turn: OwnedMutexGuard<()>, job: &JobId) -> Result<pb::Checkpoint> {
        let began = Instant::now();
        if self.awaits_anchor() {
            let what =
                "the ledger's anchor in the checkpoint store, which this coordinator has not taken up yet"
                    .to_owned();
            return Err(ServiceError::Unavailable { what });
        }
        let Some(store) = self.checkpoint_store() else {
            return Err(ServiceError::JobState {
                job: job.to_string(),
                state: "on a coordinator without a checkpoint store".into(),
                allowed: "checkpoints where --checkpoint-url names a store".into(),
            });
        };
        self.cluster().job_mut(job)?.last_attempt = began;
        let written = self.write_pieces(store, job).await;
        self.note_attempt(job, began);
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                counter!(CHECKPOINTS_FAILED).increment(1);
                warn!(%job, %error, "checkpoint failed; the previous one stays the newest");
                self.delete_unlisted(store, job).await;
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
        self.delete_unlisted(store, job).await;
        Ok(pb::Checkpoint {
            job: job.to_string(),
            id: written.id,
            next_row: written.next_row,
            bytes: written.bytes,
            shards: written.pieces.len() as u32,
            seconds,
        })
    }

    /// Sets when the next checkpoint is due: an interval after the beginning of this one, but at least half an interval
    /// after its end, for thousands of shards may take an hour to write.
    fn note_attempt(&self, job: &JobId, began: Instant) {
        let mut cluster = self.cluster();
        let Ok(view) = cluster.job_mut(job) else { return };
        let pause = self.checkpoint_interval(view).unwrap_or_default() / 2;
        view.last_attempt = Instant::now().checked_sub(pause).map_or(began, |at| at.max(began));
    }

    /// Writes every piece, the manifest and the ledger's entry.
    async fn write_pieces(&self, store: &CheckpointStore, job: &JobId) -> Result<CheckpointRecord> {
        let (record, bound_then) = {
            let mut cluster = self.cluster();
            let view = cluster.job_mut(job)?;
            if view.record.state != JobState::Running {
                return Err(view.wrong_state("running, to be checkpointed"));
            }
            view.unwritten_pieces = view.shards.iter().map(|shard| shard.record.shard).collect();
            (view.record.clone(), view.bound.next_row)
        };
        let _hold = HandoverHold { coordinator: self, job };
        let routes = self.ready_routes(job).await?;
        let id = self.checkpoint_ids().next();
        let objects: Vec<_> =
            routes.into_iter().map(|(route, at)| (piece_object(job, id, route.range), route, at)).collect();
        let calls = objects.iter().map(|(object, route, at)| self.write_piece(job, object, route, at));
        // Without boxing, the compiler can't see that a stream of borrowing futures is Send.
        let calls: Vec<futures::future::BoxFuture<'_, _>> = calls.map(|call| Box::pin(call) as _).collect();
        let pieces: Result<Vec<_>> = stream::iter(calls).buffered(PIECES_AT_ONCE).try_collect().await;
        let pieces = pieces?;
        let timings = RoundTimings::new(pieces.iter().map(|(_, answer)| answer), bound_then);
        let checkpoint = checkpoint_of(&record, id, pieces);
        self.publish(store, &checkpoint).await?;
        let mut cluster = self.cluster();
        let view = cluster.job_mut(job)?;
        if view.is_served() {
            view.checkpoint_cost = Some(timings.cost(view));
            view.last_checkpoint = Some(CheckpointMark { written_at: Instant::now(), next_row: bound_then });
            view.checkpoints.insert(0, checkpoint.clone());
        }
        Ok(checkpoint)
    }

    async fn write_piece(
        &self,
        job: &JobId,
        object: &str,
        route: &Route,
        (endpoint, worker): &(String, WorkerId),
    ) -> Result<(CheckpointPiece, pb::SnapshotResponse)> {
        let lease = (job, route.shard, route.lease_epoch);
        let request = self.release_authority().order_snapshot(worker, lease, object);
        let mut shards = self.connections().shards(endpoint, worker)?;
        let answer = timeout(PIECE_TIMEOUT, shards.snapshot(request)).await.map_err(|_| {
            ServiceError::Unavailable {
                what: format!("a checkpoint of shard {} within {PIECE_TIMEOUT:?}", route.shard),
            }
        })?;
        let answer = answer.map_err(from_status)?.into_inner();
        let piece = pb::CheckpointPiece {
            object: object.to_owned(),
            range: Some(route.range.into()),
            next_row: answer.next_row,
            sha256: answer.sha256.clone(),
        };
        self.cluster().piece_written(job, Some(route.shard));
        Ok((piece.try_into()?, answer))
    }

    async fn publish(&self, store: &CheckpointStore, checkpoint: &CheckpointRecord) -> Result<()> {
        store.write_manifest(checkpoint).await?;
        let record = checkpoint.clone();
        self.with_ledger(move |ledger| ledger.add_checkpoint(&record)).await
    }
}

/// Keeps shards of the job from changing hands before their pieces are written, until it is dropped.
struct HandoverHold<'a> {
    coordinator: &'a Coordinator,
    job: &'a JobId,
}

impl Drop for HandoverHold<'_> {
    fn drop(&mut self) {
        self.coordinator.cluster().piece_written(self.job, None);
    }
}

/// The times that the slowest shard needed.
struct RoundTimings {
    write: Duration,
    row: Duration,
    /// The job's next row to bind when the checkpoint began.
    bound_then: u64,
}

impl RoundTimings {
    fn new<'a>(answers: impl Iterator<Item = &'a pb::SnapshotResponse>, bound_then: u64) -> Self {
        let (write, row) = answers.fold((0f64, 0f64), |(write, row), answer| {
            (write.max(answer.seconds), row.max(answer.row_seconds))
        });
        // A worker may send any number.
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Self { write: time(write), row: time(row), bound_then }
    }

    /// Returns the cost. Replay counts as fast as the job itself until two checkpoints show the job's own speed.
    fn cost(&self, view: &JobView) -> CheckpointCost {
        let measured = view.last_checkpoint.and_then(|last| {
            let rows = self.bound_then.checked_sub(last.next_row).filter(|&rows| rows > 0)?;
            let replay = self.row.as_secs_f64() * rows as f64;
            (replay > 0.0).then(|| replay / last.written_at.elapsed().as_secs_f64().max(1e-3))
        });
        CheckpointCost { write: self.write, replay_rate: measured.unwrap_or(1.0) }
    }
}

fn checkpoint_of(
    record: &JobRecord,
    id: u64,
    pieces: Vec<(CheckpointPiece, pb::SnapshotResponse)>,
) -> CheckpointRecord {
    let bytes = pieces.iter().map(|(_, answer)| answer.bytes).sum();
    let pieces = pieces.into_iter().map(|(piece, _)| piece).collect();
    release::checkpoints::record(record, id, bytes, pieces)
}
