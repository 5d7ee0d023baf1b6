//! One shard of one job: its lease, its phase, and the rows that it keeps.

mod lookahead;
pub mod readers;
pub mod row;
mod smoothed;
mod waiting;

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use noise_kernel::RowGenerator;
use proto::{JobId, ServiceError, model::LeaseGrant};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::generation_spec::GenerationSpec;
use readers::ReaderRows;
use row::{BufferPool, Row, Window};
use smoothed::Smoothed;

pub use lookahead::{NextBatch, batch_rows};

/// The phase of a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// The shard is being brought to its job's position.
    Restoring,
    /// The shard's rows may be requested.
    Ready,
    /// The shard can't be served under this epoch.
    Failed(ServiceError),
}

#[derive(Debug)]
struct Rows {
    phase: Phase,
    window: Window,
    /// One more than the highest row requested, or the job's position: rows ahead are counted from here.
    wanted: u64,
    /// One more than the highest row released.
    released: u64,
    /// The time since which requests have waited for a row and none was generated.
    starved_since: Option<Instant>,
}

/// The parts of a grant that may change while the shard stays.
struct LeaseTerms {
    /// Rises when the same worker is granted the shard anew.
    epoch: u64,
    /// The store of the next snapshots: a restarted coordinator may spell its URL differently, or have moved.
    store_url: String,
}

/// A shard, shared between the task that generates its rows, requests, and snapshots.
pub struct Shard {
    grant: LeaseGrant,
    terms: Mutex<LeaseTerms>,
    spec: std::sync::OnceLock<GenerationSpec>,
    history_bytes: AtomicU64,
    pool: std::sync::OnceLock<Arc<BufferPool>>,
    rows: Mutex<Rows>,
    /// The memory that readers hold beyond the window.
    pub readers: Arc<ReaderRows>,
    /// Notified when rows were added or the phase changed.
    changed: Notify,
    /// Notified when more rows are wanted.
    demand: Notify,
    /// The span of a call that waits for a row: the next batch is generated for it.
    waiter: Mutex<Option<Span>>,
    /// Locked while rows are generated and while a snapshot copies the state.
    pub generator: Arc<tokio::sync::Mutex<Option<RowGenerator>>>,
    /// The recent seconds per row.
    row_seconds: Smoothed,
    /// Cancelled when the lease is lost: nothing more is generated or served.
    pub cancelled: CancellationToken,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shard({}/{} {})", self.grant.job, self.grant.shard, self.grant.range)
    }
}

impl Shard {
    pub fn new(grant: LeaseGrant) -> Arc<Self> {
        let rows = Rows {
            phase: Phase::Restoring,
            window: Window::default(),
            wanted: grant.next_row,
            released: 0,
            starved_since: None,
        };
        Arc::new(Self {
            terms: Mutex::new(LeaseTerms { epoch: grant.epoch, store_url: grant.store_url.clone() }),
            readers: ReaderRows::new(4 * grant.range.len()),
            grant,
            spec: std::sync::OnceLock::new(),
            history_bytes: AtomicU64::new(0),
            pool: std::sync::OnceLock::new(),
            rows: Mutex::new(rows),
            changed: Notify::new(),
            demand: Notify::new(),
            waiter: Mutex::default(),
            generator: Arc::default(),
            row_seconds: Smoothed::default(),
            cancelled: CancellationToken::new(),
        })
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn terms(&self) -> MutexGuard<'_, LeaseTerms> {
        self.terms.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the grant under which the shard was begun.
    pub fn grant(&self) -> &LeaseGrant {
        &self.grant
    }

    pub fn job(&self) -> &JobId {
        &self.grant.job
    }

    pub fn epoch(&self) -> u64 {
        self.terms().epoch
    }

    pub fn store_url(&self) -> String {
        self.terms().store_url.clone()
    }

    /// Takes the epoch and the store of a new grant over where this shard's state serves that grant too. Returns whether it
    /// does.
    pub fn adopt(&self, grant: &LeaseGrant) -> bool {
        let same = comparable(grant) == comparable(&self.grant);
        let adopted = same
            && match self.phase() {
                Phase::Ready => true,
                // Its checkpoint is read from the store that was named first; under another store it is begun anew.
                Phase::Restoring => self.terms().store_url == grant.store_url,
                // It keeps its epoch: under a new one it is tried anew.
                Phase::Failed(_) => false,
            };
        if adopted {
            *self.terms() = LeaseTerms { epoch: grant.epoch, store_url: grant.store_url.clone() };
        }
        adopted
    }

    pub fn spec(&self) -> Option<&GenerationSpec> {
        self.spec.get()
    }

    pub fn phase(&self) -> Phase {
        self.rows().phase.clone()
    }

    pub fn fail(&self, error: ServiceError) {
        self.rows().phase = Phase::Failed(error);
        self.changed.notify_waiters();
    }

    /// Makes the shard ready: its rows may be requested from now on.
    pub fn ready(&self, spec: GenerationSpec, window: Window, history_bytes: u64) {
        self.history_bytes.store(history_bytes, Ordering::Relaxed);
        let _ = self.spec.set(spec);
        let mut rows = self.rows();
        rows.window = window;
        rows.phase = Phase::Ready;
        drop(rows);
        self.changed.notify_waiters();
        self.demand.notify_one();
    }

    /// Moves a standby, which receives no requests, to its job's position.
    pub fn follow(&self, next_row: u64) {
        let mut rows = self.rows();
        if rows.wanted < next_row {
            rows.wanted = next_row;
            drop(rows);
            self.demand.notify_one();
        }
    }

    pub fn next_row(&self) -> u64 {
        self.rows().window.end()
    }

    pub fn released(&self) -> u64 {
        self.rows().released
    }

    /// Notes how long a batch took to generate.
    pub fn record_batch_time(&self, rows: u64, time: Duration) {
        self.row_seconds.add(time.as_secs_f64() / rows.max(1) as f64);
    }

    /// Returns the recent time to generate one row; zero before the first.
    pub fn row_time(&self) -> Duration {
        Duration::try_from_secs_f64(self.row_seconds.get()).unwrap_or_default()
    }

    /// Returns the bytes of the state and of past normals.
    pub fn state_bytes(&self) -> u64 {
        let state = self.spec().map_or(0, |spec| spec.slots as u64 * 4 * self.grant.range.len());
        state + self.history_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the rows in the window and of the pool.
    pub fn ahead_bytes(&self) -> u64 {
        let pool = self.pool.get().map_or(0, |pool| pool.count());
        (self.rows().window.len() + pool) as u64 * 4 * self.grant.range.len()
    }

    /// Returns the pool of memory for rows, which keeps up to `capacity` buffers from now on.
    pub fn pool(&self, capacity: usize) -> Arc<BufferPool> {
        let pool = self.pool.get_or_init(|| BufferPool::new(self.grant.range.len() as usize));
        pool.set_capacity(capacity);
        pool.clone()
    }

    /// Returns the start of the window and its rows, which a snapshot must hold beside the state. To be called with the
    /// generator locked.
    pub fn window_rows(&self) -> (u64, Vec<Row>) {
        let rows = self.rows();
        (rows.window.start(), rows.window.rows().cloned().collect())
    }

    pub fn mark_released(&self, row: u64) {
        let mut rows = self.rows();
        rows.released = rows.released.max(row + 1);
    }

    pub fn not_owner(&self) -> ServiceError {
        ServiceError::NotOwner { job: self.job().to_string(), shard: self.grant.shard }
    }
}

/// Returns the grant without the fields that do not affect the generated rows.
fn comparable(grant: &LeaseGrant) -> LeaseGrant {
    LeaseGrant { epoch: 0, next_row: 0, store_url: String::new(), pieces: vec![], ..grant.clone() }
}

#[cfg(test)]
pub(crate) mod tests;
