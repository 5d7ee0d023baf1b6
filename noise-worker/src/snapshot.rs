//! Writes a shard's state and window to the store while generation continues.
//!
//! Each batch of rows changes all of the state, so copying only what is about to change would copy all of it at the next
//! batch. It is copied at once, at the speed of memory, while generation waits. Rows never change once they are generated,
//! and are shared. Where the copy exceeds the budget, generation waits until the state is written; of a plan on a grid it
//! is copied all the same.

use std::time::Duration;

use checkpoint_store::{ShardHeader, ShardValues, WrittenShard};
use noise_kernel::{BLOCK, RowGenerator, StateCopy, grid::GridRowError};
use proto::{Result, ServiceError};
use tokio::{
    sync::{OwnedMutexGuard, OwnedSemaphorePermit},
    time::Instant,
};

use crate::{
    generation_spec::GenerationSpec, limits::Limits, metric_definitions as metric, shard::Shard,
    shard::row::Row,
};

/// A snapshot that was written, and its cost.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// The row that the shard generates next.
    pub next_row: u64,
    /// The length and the hash of the stored object.
    pub written: WrittenShard,
    /// The time from the request to the last byte on disk.
    pub duration: Duration,
    /// The part of it in which no rows could be generated.
    pub locked: Duration,
    /// The recent time to generate one row of this shard.
    pub row_time: Duration,
}

type Locked = OwnedMutexGuard<Option<RowGenerator>>;

/// The state as it stood: a copy, or the generator itself, locked.
enum State {
    Copied { copy: StateCopy, _within: Option<OwnedSemaphorePermit> },
    Locked(Locked),
}

struct Values {
    state: State,
    rows: Vec<Row>,
}

impl ShardValues for Values {
    fn state(&self) -> &[f32] {
        match &self.state {
            State::Copied { copy, .. } => copy.words(),
            State::Locked(generator) => {
                generator.as_ref().and_then(RowGenerator::state_in_place).unwrap_or(&[])
            }
        }
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, index: usize) -> &[f32] {
        self.rows[index].values()
    }
}

/// Writes the shard to `object`. Ends early when the lease is lost, or when the future is dropped.
pub async fn take(shard: &Shard, limits: &Limits, object: &str) -> Result<Snapshot> {
    let started = Instant::now();
    let grant = shard.grant();
    let restoring = || ServiceError::Restoring { job: grant.job.to_string(), shard: grant.shard };
    let store_url = shard.store_url();
    if store_url.is_empty() {
        return Err(ServiceError::Unavailable { what: "a checkpoint store".into() });
    }
    let store = limits.stores.open(&store_url)?;
    let spec = shard.spec().ok_or_else(restoring)?;
    let permit = limits.snapshots.take(copied_bytes(shard, spec)).await;
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
        block_state_len: (spec.slots * BLOCK) as u64,
        element: spec.element(),
    };
    let state = limits.pool.run(move || copy(generator, permit)).await;
    let state = state.map_err(ServiceError::internal)?.map_err(ServiceError::internal)?;
    let copied = matches!(state, State::Copied { .. }).then(|| holding.elapsed());
    let written = tokio::select! {
        biased;
        written = store.write_shard(object, header, &spec.checkpoint_key, Values { state, rows }) => written?,
        () = shard.cancelled.cancelled() => return Err(shard.not_owner()),
    };
    let duration = started.elapsed();
    let locked = copied.unwrap_or_else(|| holding.elapsed());
    metrics::histogram!(metric::SNAPSHOT_SECONDS).record(duration);
    metrics::histogram!(metric::SNAPSHOT_HELD_SECONDS).record(locked);
    Ok(Snapshot { next_row, written, duration, locked, row_time: shard.row_time() })
}

fn copied_bytes(shard: &Shard, spec: &GenerationSpec) -> u64 {
    shard.grant().range.len().next_multiple_of(BLOCK as u64) * 4 * spec.slots as u64
}

/// Copies the state and releases the generator, or keeps it locked where there is no memory for the copy. State that can't
/// be read in place is copied whatever the budget. Fails after a row that failed.
fn copy(generator: Locked, permit: Option<OwnedSemaphorePermit>) -> Result<State, GridRowError> {
    let in_place = generator.as_ref().is_none_or(|generator| generator.state_in_place().is_some());
    let copied = match generator.as_ref().filter(|_| permit.is_some() || !in_place) {
        None => None,
        Some(generator) if in_place => generator.copy_state().ok(),
        Some(generator) => Some(generator.copy_state()?),
    };
    Ok(match copied {
        Some(copy) => State::Copied { copy, _within: permit },
        None => State::Locked(generator),
    })
}
