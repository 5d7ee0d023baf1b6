//! The task that makes a shard's rows ahead of need, on the CPU pool.

use std::{sync::Arc, time::Instant};

use noise_kernel::Generator;
use proto::ServiceError;

use crate::{
    leases::Limits,
    metric_definitions::{GENERATE_SECONDS, VALUES_GENERATED},
    row::Row,
    shard::{Batch, Shard},
};

/// Rows of one batch: more don't save memory traffic, and a snapshot or a cancelled lease waits for a batch to end.
const AT_ONCE: u64 = 8;

/// Runs until the lease is cancelled or the kernel fails.
pub async fn make_rows(shard: Arc<Shard>, limits: Arc<Limits>) {
    while !shard.cancelled.is_cancelled() {
        match make_batch(&shard, &limits).await {
            Ok(true) => {}
            Ok(false) => tokio::select! {
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
    let Some(batch) = shard.next_batch(ahead, recipe.iterations, AT_ONCE) else { return Ok(false) };
    let generator = slot.take().ok_or_else(|| ServiceError::internal("a shard without its generator"))?;
    let started = Instant::now();
    let (generator, made) =
        limits.pool.run(move || generate(generator, batch, len)).await.map_err(ServiceError::internal)?;
    let made = made?;
    metrics::histogram!(GENERATE_SECONDS).record(started.elapsed());
    let (Batch::Keep(rows) | Batch::Skip(rows)) = batch;
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

fn generate(mut generator: Generator, batch: Batch, len: u64) -> (Generator, Made) {
    let made = match batch {
        Batch::Skip(rows) => generator.skip(rows).map(|()| vec![]),
        Batch::Keep(rows) => {
            let mut buffers = vec![vec![0f32; len as usize]; rows as usize];
            let mut out: Vec<&mut [f32]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
            generator.generate(&mut out).map(|()| buffers.into_iter().map(Row::new).collect())
        }
    };
    (generator, made.map_err(ServiceError::internal))
}
