//! What this worker may use, for all of its shards together.

use std::sync::atomic::{AtomicU64, Ordering};

use ledger::PlainHttp;
use node::process::cpu_pool::CpuPool;
use noise_kernel::Backend;
use tokio::sync::Semaphore;

use crate::{config::WorkerArgs, meter::Meter, restore, snapshot::Budget, stores::Stores};

/// How rows are made, how far ahead, and the pool they are made on.
#[derive(Debug)]
pub struct Limits {
    pub pool: CpuPool,
    pub ahead_rows: u64,
    /// Of all shards together.
    pub ahead_bytes: u64,
    pub backend: Backend,
    /// Past normals that one shard may keep.
    pub history_bytes: u64,
    /// Memory for copies of state while they are written.
    pub snapshots: Budget,
    /// Turns to read a checkpoint.
    pub restores: Semaphore,
    pub stores: Stores,
    pub meter: Meter,
    shards: AtomicU64,
}

impl Limits {
    pub fn new(pool: CpuPool, args: &WorkerArgs) -> Self {
        let WorkerArgs { ahead_rows, ahead_bytes, backend, history_bytes, .. } = *args;
        let plain_http = if args.s3_plain_http { PlainHttp::Allowed } else { PlainHttp::Refused };
        let snapshots = Budget::new(args.snapshot_bytes);
        let stores = Stores::new(plain_http);
        let restores = Semaphore::new(restore::AT_ONCE);
        let meter = Meter::default();
        let shards = 0.into();
        Self {
            pool,
            ahead_rows,
            ahead_bytes,
            backend,
            history_bytes,
            snapshots,
            restores,
            stores,
            meter,
            shards,
        }
    }

    /// At the rate that this worker has measured.
    pub fn measured(self, rate: f64) -> Self {
        Self { meter: Meter::of_rate(rate), ..self }
    }

    /// How many shards share what all of them have together.
    pub fn share_among(&self, shards: usize) {
        self.shards.store(shards as u64, Ordering::Relaxed);
    }

    /// Rows ahead for a shard of `len` coordinates: its share of the bytes, at least one row.
    pub fn ahead_rows(&self, len: u64) -> u64 {
        let shards = self.shards.load(Ordering::Relaxed).max(1);
        (self.ahead_bytes / shards / (4 * len)).clamp(1, self.ahead_rows.max(1))
    }
}
