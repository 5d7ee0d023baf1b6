//! A shard's state and window, written to the store while rows go on being made.
//!
//! Each batch of rows changes all of the state, so to copy only what is about to change would copy all of it at the
//! next batch: it is copied at once, at the speed of memory, with making held for that long. Rows that are made never
//! change and are shared. Where the copy is beyond the budget, making waits until the state is written.

use std::{sync::Arc, time::Duration};

use checkpoint_store::{ShardHeader, ShardValues, WrittenShard};
use noise_kernel::{BLOCK, Buffer, Generator};
use proto::{ElementType, Result, ServiceError};
use tokio::{
    sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{limits::Limits, metric_definitions as metric, recipe::Recipe, row::Row, shard::Shard};

/// What a snapshot was of, and what it cost.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    pub next_row: u64,
    pub written: WrittenShard,
    /// From the request to the last byte on disk.
    pub took: Duration,
    /// The part of it in which no rows could be made.
    pub held: Duration,
    /// Time to make one row of this shard.
    pub row: Duration,
}

/// Memory for copies of state, of all shards together. Counted in KiB: a semaphore's permits are few.
#[derive(Debug)]
pub struct Budget {
    permits: Arc<Semaphore>,
    kib: u32,
}

impl Budget {
    pub fn new(bytes: u64) -> Self {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(1 << 28);
        Self { permits: Arc::new(Semaphore::new(kib as usize)), kib }
    }

    /// Waits for other snapshots to end. `None` where so many bytes are more than all of it.
    async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).ok().filter(|&kib| kib <= self.kib)?;
        self.permits.clone().acquire_many_owned(kib).await.ok()
    }
}

type Held = OwnedMutexGuard<Option<Generator>>;

/// The state as it stood: a copy, or the generator itself, held.
enum State {
    Copied { copy: Buffer, _within: OwnedSemaphorePermit },
    Held(Held),
}

struct Values {
    state: State,
    rows: Vec<Row>,
}

impl ShardValues for Values {
    fn state(&self) -> &[f32] {
        match &self.state {
            State::Copied { copy, .. } => copy,
            State::Held(generator) => generator.as_ref().map_or(&[], Generator::state),
        }
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, index: usize) -> &[f32] {
        self.rows[index].values()
    }
}

/// Writes the shard as it stands to `object`. Given up when the lease is gone, or when nobody waits for it any more.
pub async fn take(shard: &Shard, limits: &Limits, object: &str) -> Result<Snapshot> {
    let started = Instant::now();
    let grant = shard.grant();
    let restoring = || ServiceError::Restoring { job: grant.job.to_string(), shard: grant.shard };
    let store_url = shard.store_url();
    if store_url.is_empty() {
        return Err(ServiceError::Unavailable { what: "a checkpoint store".into() });
    }
    let store = limits.stores.open(&store_url)?;
    let recipe = shard.recipe().ok_or_else(restoring)?;
    let permit = limits.snapshots.take(copied_bytes(shard, recipe)).await;
    let generator = shard.generator.clone().lock_owned().await;
    let holding = Instant::now();
    let next_row = generator.as_ref().ok_or_else(restoring)?.next_row();
    let (window_start, rows) = shard.window_rows();
    let header = ShardHeader {
        job: grant.job.to_string(),
        branch: grant.branch(),
        plan_digest: grant.plan_digest,
        key_commitment: grant.key_commitment,
        stream_version: noise_kernel::STREAM_VERSION,
        range: grant.range,
        next_row,
        window_start: if rows.is_empty() { next_row } else { window_start },
        block_state_len: (recipe.slots * BLOCK) as u64,
        element: ElementType::F32,
    };
    let state = limits.pool.run(move || copy(generator, permit)).await.map_err(ServiceError::internal)?;
    let copied = matches!(state, State::Copied { .. }).then(|| holding.elapsed());
    let written = tokio::select! {
        biased;
        written = store.write_shard(object, header, &recipe.checkpoint_key, Values { state, rows }) => written?,
        () = shard.cancelled.cancelled() => return Err(shard.not_owner()),
    };
    let took = started.elapsed();
    let held = copied.unwrap_or_else(|| holding.elapsed());
    metrics::histogram!(metric::SNAPSHOT_SECONDS).record(took);
    metrics::histogram!(metric::SNAPSHOT_HELD_SECONDS).record(held);
    Ok(Snapshot { next_row, written, took, held, row: shard.row_time() })
}

fn copied_bytes(shard: &Shard, recipe: &Recipe) -> u64 {
    shard.grant().range.len().next_multiple_of(BLOCK as u64) * 4 * recipe.slots as u64
}

/// Lets the generator go on where its state was copied. A system without memory for it is no reason to fail.
fn copy(generator: Held, permit: Option<OwnedSemaphorePermit>) -> State {
    let copied = permit.zip(generator.as_ref().and_then(|generator| generator.copy_state().ok()));
    match copied {
        Some((within, copy)) => State::Copied { copy, _within: within },
        None => State::Held(generator),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_budget_is_shared_and_says_what_it_can_never_hold() {
        let budget = Budget::new(10 << 10);
        assert!(budget.take((10 << 10) + 1).await.is_none());
        let first = budget.take(9 << 10).await.unwrap();
        let waiting = budget.take(2000);
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(first);
        assert!(waiting.await.is_some());
        assert!(Budget::new(0).take(1).await.is_none() && Budget::new(0).take(0).await.is_some());
    }
}
