//! Brings a newly granted shard to where its job stands: from the newest checkpoint that is whole, else from the one
//! before it, else from the key.

mod join;
mod patience;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ledger::{ShardCheckpoint, ShardHeader, pieces_by_checkpoint};
use noise_kernel::Generator;
use proto::{
    CoordinateRange, Result, ServiceError,
    model::{CheckpointPiece, LeaseGrant},
};

use crate::{
    limits::Limits,
    meter::bytes_a_row,
    metric_definitions::CHECKPOINTS_REFUSED,
    recipe::Recipe,
    row::{Row, Window},
};
use join::{Piece, join};
use patience::Patience;

/// Restores that read at once: while it is put together, a shard is in memory twice.
pub const AT_ONCE: usize = 4;

/// The generator and the rows already made, ready to go on.
pub async fn restore(grant: &LeaseGrant, recipe: &Recipe, limits: &Limits) -> Result<(Generator, Window)> {
    let mut patience = Patience::against(replay_time(grant, recipe, limits));
    for (id, pieces) in pieces_by_checkpoint(&grant.pieces) {
        match once_in_reach(&pieces, grant, recipe, limits, &mut patience).await {
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
    // Skipped to where the job stands by the task that makes rows.
    let recipe = recipe.clone();
    let range = grant.range.as_range();
    let made = limits.pool.run(move || recipe.generator(range)).await.map_err(ServiceError::internal)?;
    Ok((made.map_err(ServiceError::internal)?, Window::default()))
}

/// To where the newest checkpoint stands, from the key, at the rate that this worker has measured.
fn replay_time(grant: &LeaseGrant, recipe: &Recipe, limits: &Limits) -> Option<Duration> {
    let rows = grant.pieces.iter().map(|piece| piece.next_row).max()?;
    let bytes = bytes_a_row(recipe, grant.range.len()) as f64 * rows as f64;
    let rate = limits.meter.rate();
    if rate > 0.0 { Duration::try_from_secs_f64(bytes / rate).ok() } else { None }
}

/// Tries again while the store can't be reached, for as long as patience lasts: a checkpoint that is read a minute later
/// may save hours. What is missing, damaged or another's stays so, and is an error at once.
async fn once_in_reach(
    stored: &[CheckpointPiece],
    grant: &LeaseGrant,
    recipe: &Recipe,
    limits: &Limits,
    patience: &mut Patience,
) -> Result<(Generator, Window)> {
    loop {
        match from_checkpoint(stored, grant, recipe, limits).await {
            Err(error @ ServiceError::Unavailable { .. }) => {
                if !patience.wait(&error).await {
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
    recipe: &Recipe,
    limits: &Limits,
) -> Result<(Generator, Window)> {
    // Given back before a store that is away is waited for.
    let _reading = limits.restores.acquire().await.map_err(ServiceError::internal)?;
    let store = limits.stores.open(&grant.store_url)?;
    let mut pieces = Vec::new();
    for piece in stored {
        let Some(range) = piece.range.intersection(&grant.range) else { continue };
        let check = |header: &ShardHeader| check_header(header, grant);
        let stored =
            store.read_part(&piece.object, &piece.sha256, &recipe.checkpoint_key, range, check).await?;
        let recipe = recipe.clone();
        let cut = limits.pool.run(move || cut(stored, range, &recipe)).await;
        pieces.push(cut.map_err(ServiceError::internal)??);
    }
    check_cover(&mut pieces, grant.range)?;
    let recipe = recipe.clone();
    let range = grant.range;
    limits.pool.run(move || join(pieces, range, &recipe)).await.map_err(ServiceError::internal)?
}

fn check_header(header: &ShardHeader, grant: &LeaseGrant) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("is of another {what}"));
    match () {
        () if header.job != grant.job.as_str() => wrong("job"),
        // Rows that the branches don't share must not have gone into the state.
        () if !grant.lineage.continues(header.branch, header.next_row) => wrong("branch"),
        () if header.plan_digest != grant.plan_digest => wrong("plan"),
        () if header.key_commitment != grant.key_commitment => wrong("key"),
        () if header.stream_version != noise_kernel::STREAM_VERSION => wrong("stream version"),
        () => Ok(()),
    }
}

/// The part that was read, ready to go on.
fn cut(stored: ShardCheckpoint, range: CoordinateRange, recipe: &Recipe) -> Result<Piece> {
    let ShardCheckpoint { header, state, window } = stored;
    let generator =
        recipe.restore(range.as_range(), header.next_row, &[&state]).map_err(ServiceError::internal)?;
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
