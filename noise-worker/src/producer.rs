//! The task that makes a shard's rows ahead of need, on the CPU pool.

use std::sync::Arc;

use noise_kernel::{Generator, KernelError};
use proto::ServiceError;
use tokio::time::Instant;
use tracing::Instrument;

use crate::{
    limits::Limits,
    meter::bytes_a_row,
    metric_definitions::{GENERATE_SECONDS, VALUES_GENERATED},
    row::{Row, Spares},
    shard::{Batch, Shard, batch_rows},
    spans::kernel_span,
};

/// Runs until the lease is cancelled or the kernel fails.
pub async fn make_rows(shard: Arc<Shard>, limits: Arc<Limits>) {
    while !shard.cancelled.is_cancelled() {
        match make_batch(&shard, &limits).await {
            Ok(true) => {}
            Ok(false) => tokio::select! {
                biased;
                () = shard.demanded() => {}
                () = shard.cancelled.cancelled() => return,
            },
            Err(error) => {
                tracing::error!(job = %shard.job(), shard = shard.grant().shard, %error, "making rows failed");
                return shard.fail(error);
            }
        }
    }
}

/// False where nothing is wanted now.
async fn make_batch(shard: &Shard, limits: &Limits) -> Result<bool, ServiceError> {
    let Some(recipe) = shard.recipe() else { return Ok(false) };
    let mut slot = shard.generator.lock().await;
    let len = shard.grant().range.len();
    let ahead = limits.ahead_rows(len);
    let at_once = slot.as_ref().map_or(1, Generator::suggested_rows_at_once) as u64;
    let Some(batch) = shard.next_batch(ahead, recipe.iterations, at_once) else { return Ok(false) };
    let generator = match slot.take() {
        Some(generator) => generator,
        None if shard.cancelled.is_cancelled() => return Ok(false),
        None => return Err(ServiceError::internal("a shard without its generator")),
    };
    // The last batch needs no memory for another.
    let (Batch::Keep(rows) | Batch::Skip(rows)) = batch;
    let spare = if generator.remaining() > rows { batch_rows(ahead, at_once) } else { 0 };
    let spares = shard.spares(spare as usize);
    let started = Instant::now();
    let is_kept = matches!(batch, Batch::Keep(_));
    // Rows that are passed over may cost next to nothing: they measure nothing.
    let making = is_kept.then(|| limits.meter.making(rows.saturating_mul(bytes_a_row(recipe, len))));
    let ran = limits.pool.run(move || {
        let _within = kernel_span("made", rows, len).entered();
        generate(generator, batch, &spares)
    });
    let ran = ran.instrument(shard.take_waiter()).await;
    drop(making);
    let (generator, made) = ran.map_err(ServiceError::internal)?;
    let made = made?;
    metrics::histogram!(GENERATE_SECONDS).record(started.elapsed());
    shard.rows_took(rows, started.elapsed());
    metrics::counter!(VALUES_GENERATED).increment(rows * len);
    match batch {
        Batch::Keep(_) => shard.push(made),
        Batch::Skip(_) => shard.skipped(generator.next_row()),
    }
    // Given back after its rows are in the window: a snapshot that holds the lock sees both or neither.
    *slot = Some(generator);
    Ok(true)
}

type Made = Result<Vec<Row>, ServiceError>;

fn generate(mut generator: Generator, batch: Batch, spares: &Arc<Spares>) -> (Generator, Made) {
    let made = match batch {
        Batch::Skip(rows) => generator.skip(rows).map(|()| vec![]),
        Batch::Keep(rows) => keep(&mut generator, rows, spares),
    };
    (generator, made.map_err(ServiceError::internal))
}

fn keep(generator: &mut Generator, rows: u64, spares: &Arc<Spares>) -> Result<Vec<Row>, KernelError> {
    let mut memory = (0..rows).map(|_| spares.take()).collect::<Result<Vec<_>, _>>()?;
    let mut out: Vec<&mut [f32]> = memory.iter_mut().map(|row| &mut row[..]).collect();
    generator.generate(&mut out)?;
    Ok(memory.into_iter().map(|memory| spares.row(memory)).collect())
}
