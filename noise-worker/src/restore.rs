//! Brings a newly granted shard to where its job stands: from the newest checkpoint that is whole, else from the one
//! before it, else from the key.

use ledger::{ShardCheckpoint, ShardHeader, pieces_by_checkpoint};
use noise_kernel::{BLOCK, Generator};
use proto::{
    CoordinateRange, Result, ServiceError,
    model::{CheckpointPiece, LeaseGrant},
};

use crate::{
    leases::Limits,
    metric_definitions::CHECKPOINTS_REFUSED,
    recipe::Recipe,
    row::{Row, Window},
};

/// The generator and the rows already made, ready to go on.
pub async fn restore(grant: &LeaseGrant, recipe: &Recipe, limits: &Limits) -> Result<(Generator, Window)> {
    for (id, pieces) in pieces_by_checkpoint(&grant.pieces) {
        match from_checkpoint(&pieces, grant, recipe, limits).await {
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
    let (recipe, range) = (recipe.clone(), grant.range.as_range());
    let made = limits.pool.run(move || recipe.generator(range)).await.map_err(ServiceError::internal)?;
    Ok((made.map_err(ServiceError::internal)?, Window::default()))
}

/// A part of the shard as one stored object had it.
struct Piece {
    range: CoordinateRange,
    generator: Generator,
    window: Window,
}

async fn from_checkpoint(
    stored: &[CheckpointPiece],
    grant: &LeaseGrant,
    recipe: &Recipe,
    limits: &Limits,
) -> Result<(Generator, Window)> {
    let store = limits.stores.open(&grant.store_url)?;
    let mut pieces = Vec::new();
    for piece in stored {
        let Some(range) = piece.range.intersection(&grant.range) else { continue };
        let check = |header: &ShardHeader| check_header(header, grant);
        let stored = store.read_shard(&piece.object, &piece.sha256, &recipe.checkpoint_key, check).await?;
        let recipe = recipe.clone();
        let cut = limits.pool.run(move || cut(stored, range, &recipe)).await;
        pieces.push(cut.map_err(ServiceError::internal)??);
    }
    check_cover(&mut pieces, grant.range)?;
    let next_row = pieces.iter().map(|piece| piece.generator.next_row()).max().unwrap_or(0);
    let recipe = recipe.clone();
    let range = grant.range;
    limits.pool.run(move || join(pieces, next_row, range, &recipe)).await.map_err(ServiceError::internal)?
}

fn check_header(header: &ShardHeader, grant: &LeaseGrant) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("is of another {what}"));
    match () {
        () if header.job != grant.job.as_str() => wrong("job"),
        () if header.branch != grant.branch => wrong("branch"),
        () if header.plan_digest != grant.plan_digest => wrong("plan"),
        () if header.key_commitment != grant.key_commitment => wrong("key"),
        () if header.stream_version != noise_kernel::STREAM_VERSION => wrong("stream version"),
        () => Ok(()),
    }
}

/// State lies block by block, so that a part of a shard is a slice of it.
fn cut(stored: ShardCheckpoint, range: CoordinateRange, recipe: &Recipe) -> Result<Piece> {
    let ShardCheckpoint { header, state, window } = stored;
    let (block, per_block) = (BLOCK as u64, header.block_state_len as usize);
    let first = ((range.start - header.range.start) / block) as usize;
    let blocks = (range.end - range.start).div_ceil(block) as usize;
    let state = &state[first * per_block..(first + blocks) * per_block];
    let generator =
        recipe.restore(range.as_range(), header.next_row, &[state]).map_err(ServiceError::internal)?;
    let (from, to) = ((range.start - header.range.start) as usize, (range.end - header.range.start) as usize);
    let rows = window.into_iter().map(|row| Row::new(row[from..to].to_vec())).collect();
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

/// Pieces that stand at different rows are brought to the same one; rows that not all of them have are let go, and
/// drawn again if they are asked for.
fn join(
    mut pieces: Vec<Piece>,
    next_row: u64,
    range: CoordinateRange,
    recipe: &Recipe,
) -> Result<(Generator, Window)> {
    for piece in &mut pieces {
        while piece.generator.next_row() < next_row {
            let mut row = vec![0f32; piece.range.len() as usize];
            piece.generator.generate(&mut [&mut row]).map_err(ServiceError::internal)?;
            piece.window.push(Row::new(row));
        }
    }
    if pieces.len() == 1
        && let Some(Piece { generator, window, .. }) = pieces.pop()
    {
        return Ok((generator, window));
    }
    let start = pieces.iter().map(|piece| piece.window.start()).max().unwrap_or(next_row);
    let rows = (start..next_row).map(|row| {
        let parts = pieces.iter().filter_map(|piece| piece.window.get(row));
        Row::new(parts.flat_map(|part| part.values()).copied().collect())
    });
    let window = Window::new(start, rows.collect());
    let state: Vec<&[f32]> = pieces.iter().map(|piece| piece.generator.state()).collect();
    let generator = recipe.restore(range.as_range(), next_row, &state).map_err(ServiceError::internal)?;
    Ok((generator, window))
}
