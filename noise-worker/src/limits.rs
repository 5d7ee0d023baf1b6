//! The resources that all shards of a worker share.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use checkpoint_store::PlainHttp;
use node::process::cpu_pool::CpuPool;
use noise_kernel::{Backend, KernelError};
use proto::RELEASED_ROWS_KEPT;
use tokio::sync::Semaphore;

use crate::{
    config::WorkerArgs, copy_budget::CopyBudget, row_check::RowCheck, stores::Stores, throughput::Throughput,
};

/// The number of restores that may read at once: while it is put together, a shard is in memory twice.
pub const MAX_CONCURRENT_READS: usize = 4;

/// The threads and the memory that all shards share, and how rows are generated with them.
#[derive(Debug)]
pub struct Limits {
    pub(crate) pool: CpuPool,
    pub(crate) ahead_rows: u64,
    /// The maximum for all shards together.
    pub(crate) ahead_bytes: u64,
    pub(crate) backend: Backend,
    /// The maximum bytes of past normals that one shard may keep.
    pub(crate) history_bytes: u64,
    /// Memory for copies of state while they are written.
    pub(crate) snapshots: CopyBudget,
    /// Permits to read a checkpoint.
    pub(crate) restores: Semaphore,
    pub(crate) stores: Stores,
    pub(crate) throughput: Throughput,
    /// The time after which an answer ends whose reader takes nothing.
    pub(crate) reader_timeout: Duration,
    /// Makes every row, and a sample of them again.
    pub(crate) row_check: RowCheck,
    shards: AtomicU64,
}

impl Limits {
    /// Generates rows on `pool`, within the limits of `args`.
    ///
    /// # Errors
    /// [`KernelError::Backend`] for an instruction set that this processor does not have.
    pub fn new(pool: CpuPool, args: &WorkerArgs) -> Result<Self, KernelError> {
        let WorkerArgs { ahead_rows, ahead_bytes, backend, history_bytes, reader_timeout, .. } = *args;
        let plain_http = if args.s3_plain_http { PlainHttp::Allowed } else { PlainHttp::Refused };
        let snapshots = CopyBudget::new(args.snapshot_bytes);
        let stores = Stores::new(plain_http);
        let restores = Semaphore::new(MAX_CONCURRENT_READS);
        let throughput = Throughput::default();
        let row_check = RowCheck::new(backend, args.recheck_one_in)?;
        let shards = 0.into();
        Ok(Self {
            pool,
            ahead_rows,
            ahead_bytes,
            backend,
            history_bytes,
            snapshots,
            restores,
            stores,
            throughput,
            reader_timeout,
            row_check,
            shards,
        })
    }

    /// Starts from a measured throughput, in bytes per second.
    pub(crate) fn with_throughput(self, rate: f64) -> Self {
        Self { throughput: Throughput::with_rate(rate), ..self }
    }

    /// Sets the number of shards that share the limits.
    pub(crate) fn share_among(&self, shards: usize) {
        self.shards.store(shards as u64, Ordering::Relaxed);
    }

    /// Returns the maximum number of rows ahead for a shard of `len` coordinates: its share of the bytes, at least one row.
    pub(crate) fn ahead_rows(&self, len: u64) -> u64 {
        let shards = self.shards.load(Ordering::Relaxed).max(1);
        (self.ahead_bytes / shards / (4 * len)).clamp(1, self.ahead_rows.max(1))
    }

    /// Returns the rows of memory that readers of a shard of `len` coordinates may hold: as many as its window may have.
    pub(crate) fn reader_rows(&self, len: u64) -> u64 {
        self.ahead_rows(len) + RELEASED_ROWS_KEPT
    }
}
