//! Brings a newly granted shard to its job's position: from the newest checkpoint that is whole, else from the one
//! before it, else from the key.

mod join;
mod retry_deadline;
#[cfg(test)]
mod tests;

use std::time::Duration;

use checkpoint_store::{ShardCheckpoint, ShardHeader};
use noise_kernel::RowGenerator;
use proto::pieces_by_checkpoint;
use proto::{
    CoordinateRange, Result, ServiceError,
    model::{CheckpointPiece, LeaseGrant},
};

use crate::{
    generation_spec::GenerationSpec,
    limits::Limits,
    metric_definitions::CHECKPOINTS_REFUSED,
    shard::row::{Row, Window},
    throughput::bytes_per_row,
};
use join::{Piece, join};
use retry_deadline::RetryDeadline;

/// Returns the generator and the rows already generated. Fails where not even the key can restore the shard.
pub async fn restore(
    grant: &LeaseGrant,
    spec: &GenerationSpec,
    limits: &Limits,
) -> Result<(RowGenerator, Window)> {
    let mut retry_deadline = RetryDeadline::new(replay_time(grant, spec, limits));
    for (id, pieces) in pieces_by_checkpoint(&grant.pieces) {
        match retry_while_unreachable(&pieces, grant, spec, limits, &mut retry_deadline).await {
            Ok(restored) => {
                tracing::info!(job = %grant.job, shard = grant.shard, checkpoint = id, next_row = restored.0.next_row(),
                    "restored from a checkpoint");
                return Ok(restored);
            }
            Err(error) => {
                metrics::counter!(CHECKPOINTS_REFUSED).increment(1);
                tracing::warn!(job = %grant.job, shard = grant.shard, checkpoint = id, %error,
                    "checkpoint not usable; trying the one before, then the key");
            }
        }
    }
    // The producer passes over the rows up to the job's position.
    let spec = spec.clone();
    let range = grant.range.as_range();
    let made = limits.pool.run(move || spec.generator(range)).await.map_err(ServiceError::internal)?;
    Ok((made.map_err(ServiceError::internal)?, Window::default()))
}

/// Returns the time from the key to the newest checkpoint's row, at the measured throughput.
fn replay_time(grant: &LeaseGrant, spec: &GenerationSpec, limits: &Limits) -> Option<Duration> {
    let rows = grant.pieces.iter().map(|piece| piece.next_row).max()?;
    let bytes = bytes_per_row(spec, grant.range.len()) as f64 * rows as f64;
    let rate = limits.throughput.rate();
    if rate > 0.0 { Duration::try_from_secs_f64(bytes / rate).ok() } else { None }
}

/// Retries while the store can't be reached, up to the deadline: a checkpoint that is read a minute later may save hours.
/// Fails at once where a checkpoint is missing, damaged or of another job.
async fn retry_while_unreachable(
    stored: &[CheckpointPiece],
    grant: &LeaseGrant,
    spec: &GenerationSpec,
    limits: &Limits,
    retry_deadline: &mut RetryDeadline,
) -> Result<(RowGenerator, Window)> {
    loop {
        match from_checkpoint(stored, grant, spec, limits).await {
            Err(error @ ServiceError::Unavailable { .. }) => {
                if !retry_deadline.wait(&error).await {
                    return Err(error);
                }
            }
            done => return done,
        }
    }
}

async fn from_checkpoint(
    stored: &[CheckpointPiece],
    grant: &LeaseGrant,
    spec: &GenerationSpec,
    limits: &Limits,
) -> Result<(RowGenerator, Window)> {
    // Released before a store that is out of reach is waited for.
    let _reading = limits.restores.acquire().await.map_err(ServiceError::internal)?;
    let store = limits.stores.open(&grant.store_url)?;
    let mut pieces = Vec::new();
    for piece in stored {
        let Some(range) = piece.range.intersection(&grant.range) else { continue };
        let check = |header: &ShardHeader| check_header(header, grant, spec);
        let stored =
            store.read_part(&piece.object, &piece.sha256, &spec.checkpoint_key, range, check).await?;
        let spec = spec.clone();
        let restore_piece = limits.pool.run(move || restore_piece(stored, range, &spec)).await;
        pieces.push(restore_piece.map_err(ServiceError::internal)??);
    }
    check_cover(&mut pieces, grant.range)?;
    let spec = spec.clone();
    let range = grant.range;
    limits.pool.run(move || join(pieces, range, &spec)).await.map_err(ServiceError::internal)?
}

fn check_header(header: &ShardHeader, grant: &LeaseGrant, spec: &GenerationSpec) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("is of another {what}"));
    if header.job != grant.job.as_str() {
        return wrong("job");
    }
    // Rows that the branches don't share must not have gone into the state.
    if !grant.lineage.continues(header.branch, header.next_row) {
        return wrong("branch");
    }
    if header.plan_digest != grant.plan_digest {
        return wrong("plan");
    }
    if header.key_commitment != grant.key_commitment {
        return wrong("key");
    }
    if header.stream_version != noise_kernel::STREAM_VERSION {
        return wrong("stream version");
    }
    if header.element != spec.element() {
        return wrong("element type");
    }
    Ok(())
}

/// Returns the part that was read, ready to continue.
fn restore_piece(stored: ShardCheckpoint, range: CoordinateRange, spec: &GenerationSpec) -> Result<Piece> {
    let ShardCheckpoint { header, state, window } = stored;
    let generator =
        spec.restore(range.as_range(), header.next_row, &[&state]).map_err(ServiceError::internal)?;
    let rows = window.into_iter().map(Row::new).collect();
    Ok(Piece { range, generator, window: Window::new(header.window_start, rows) })
}

fn check_cover(pieces: &mut [Piece], range: CoordinateRange) -> Result<()> {
    pieces.sort_by_key(|piece| piece.range.start);
    let mut covered = range.start;
    for piece in pieces.iter() {
        if piece.range.start != covered {
            break;
        }
        covered = piece.range.end;
    }
    if covered == range.end {
        Ok(())
    } else {
        let reason = format!("its pieces cover {}..{covered} of {range}", range.start);
        Err(ServiceError::Checkpoint { object: "newest".into(), reason })
    }
}
