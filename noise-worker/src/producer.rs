//! The task that generates a shard's rows ahead of demand, on the CPU pool.

use std::sync::Arc;

use noise_kernel::RowGenerator;
use proto::ServiceError;
use tokio::time::Instant;
use tracing::Instrument;

use crate::{
    limits::Limits,
    metric_definitions::{GENERATE_SECONDS, VALUES_GENERATED},
    row_check::RowCheck,
    shard::row::{BufferPool, Row},
    shard::{NextBatch, Shard, batch_rows},
    spans::kernel_span,
    throughput::bytes_per_row,
};

/// Generates rows until the lease is cancelled or the kernel fails.
pub async fn produce_rows(shard: Arc<Shard>, limits: Arc<Limits>) {
    while !shard.cancelled.is_cancelled() {
        let sound = limits.row_check.ensure_sound();
        let produced = match sound {
            Ok(()) => produce_batch(&shard, &limits).await,
            Err(error) => Err(error),
        };
        match produced {
            Ok(true) => {}
            Ok(false) => tokio::select! {
                biased;
                () = shard.wait_for_demand() => {}
                () = shard.cancelled.cancelled() => return,
                // Rows of another shard were wrong.
                () = limits.row_check.stopped() => {}
            },
            Err(error) => {
                tracing::error!(job = %shard.job(), shard = shard.grant().shard, %error, "generating rows failed");
                return shard.fail(error);
            }
        }
    }
}

/// Generates the next batch. Returns whether one was wanted.
async fn produce_batch(shard: &Shard, limits: &Arc<Limits>) -> Result<bool, ServiceError> {
    let Some(spec) = shard.spec() else { return Ok(false) };
    let mut slot = shard.generator.lock().await;
    let len = shard.grant().range.len();
    let ahead = limits.ahead_rows(len);
    let at_once = slot.as_ref().map_or(1, RowGenerator::suggested_rows_at_once) as u64;
    let Some(batch) = shard.next_batch(ahead, spec.iterations, at_once) else { return Ok(false) };
    let generator = match slot.take() {
        Some(generator) => generator,
        None if shard.cancelled.is_cancelled() => return Ok(false),
        None => return Err(ServiceError::internal("a shard without its generator")),
    };
    // The last batch needs no memory for another.
    let (NextBatch::Keep(rows) | NextBatch::Skip(rows)) = batch;
    let spare = if generator.remaining() > rows { batch_rows(ahead, at_once) } else { 0 };
    let pool = shard.pool(spare as usize);
    let started = Instant::now();
    let is_kept = matches!(batch, NextBatch::Keep(_));
    // Rows that are passed over may cost next to nothing, and are no measurement.
    let work = is_kept.then(|| limits.throughput.start_work(rows.saturating_mul(bytes_per_row(spec, len))));
    let checked = limits.clone();
    let ran = limits.pool.run(move || {
        let _within = kernel_span("made", rows, len).entered();
        generate(generator, batch, &pool, &checked.row_check)
    });
    let ran = ran.instrument(shard.take_waiter()).await;
    drop(work);
    let (generator, made) = ran.map_err(ServiceError::internal)?;
    let made = made?;
    metrics::histogram!(GENERATE_SECONDS).record(started.elapsed());
    shard.record_batch_time(rows, started.elapsed());
    metrics::counter!(VALUES_GENERATED).increment(rows * len);
    match batch {
        NextBatch::Keep(_) => shard.push(made),
        NextBatch::Skip(_) => shard.skip_to(generator.next_row()),
    }
    // Given back after its rows are in the window: a snapshot that holds the lock sees both or neither.
    *slot = Some(generator);
    Ok(true)
}

type Batch = Result<Vec<Row>, ServiceError>;

fn generate(
    mut generator: RowGenerator,
    batch: NextBatch,
    pool: &Arc<BufferPool>,
    row_check: &RowCheck,
) -> (RowGenerator, Batch) {
    let made = match batch {
        NextBatch::Skip(rows) => generator.skip(rows).map(|()| vec![]).map_err(ServiceError::internal),
        NextBatch::Keep(rows) => keep(&mut generator, rows, pool, row_check),
    };
    (generator, made)
}

fn keep(generator: &mut RowGenerator, rows: u64, pool: &Arc<BufferPool>, row_check: &RowCheck) -> Batch {
    let memory = (0..rows).map(|_| pool.take()).collect::<Result<Vec<_>, _>>();
    let mut memory = memory.map_err(ServiceError::internal)?;
    let mut out: Vec<&mut [f32]> = memory.iter_mut().map(|row| &mut row[..]).collect();
    row_check.generate(generator, &mut out)?;
    Ok(memory.into_iter().map(|memory| pool.row(memory)).collect())
}
