//! One shard of one job: who has it under which epoch, where it stands, and what it keeps.

mod ahead;
mod waiting;

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use noise_kernel::Generator;
use proto::{JobId, ServiceError, model::LeaseGrant};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    recipe::Recipe,
    row::{Row, Spares, Window},
};

pub use ahead::{Batch, batch_rows};

/// Released rows kept for a retry, so that it needs no replay.
const KEPT_BEHIND: u64 = 2;

/// Where a shard stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    Restoring,
    Ready,
    Failed(ServiceError),
}

#[derive(Debug)]
struct Rows {
    phase: Phase,
    window: Window,
    /// The highest row asked for, or where the job stands: rows ahead are counted from here.
    wanted: u64,
    /// One more than the highest row released.
    released: u64,
    /// Since when requests have waited for a row, with none made.
    starved_since: Option<Instant>,
}

/// What of a grant may change while the shard goes on.
struct Held {
    /// Rises when the same worker is granted the shard anew.
    epoch: u64,
    /// Where the next snapshots go: a coordinator that was started anew may spell it otherwise, or have moved.
    store_url: String,
}

/// Shared between the task that makes rows, requests, and snapshots.
pub struct Shard {
    grant: LeaseGrant,
    held: Mutex<Held>,
    recipe: std::sync::OnceLock<Recipe>,
    history_bytes: AtomicU64,
    spares: std::sync::OnceLock<Arc<Spares>>,
    rows: Mutex<Rows>,
    /// Rows were added, or the phase changed.
    changed: Notify,
    /// More rows are wanted.
    demand: Notify,
    /// The call that waits for a row: what is made next is made for it.
    waiter: Mutex<Option<Span>>,
    /// Held while rows are made and while a snapshot copies the state.
    pub generator: Arc<tokio::sync::Mutex<Option<Generator>>>,
    /// Bits of the seconds that one row took lately; 0 before the first.
    row_seconds: AtomicU64,
    /// The lease is gone: stop making, stop serving.
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
            held: Mutex::new(Held { epoch: grant.epoch, store_url: grant.store_url.clone() }),
            grant,
            recipe: std::sync::OnceLock::new(),
            history_bytes: AtomicU64::new(0),
            spares: std::sync::OnceLock::new(),
            rows: Mutex::new(rows),
            changed: Notify::new(),
            demand: Notify::new(),
            waiter: Mutex::default(),
            generator: Arc::default(),
            row_seconds: AtomicU64::new(0),
            cancelled: CancellationToken::new(),
        })
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// As it was when the shard was begun.
    pub fn grant(&self) -> &LeaseGrant {
        &self.grant
    }

    pub fn job(&self) -> &JobId {
        &self.grant.job
    }

    pub fn epoch(&self) -> u64 {
        self.held().epoch
    }

    pub fn store_url(&self) -> String {
        self.held().store_url.clone()
    }

    /// True where this shard's state serves the new grant too; only the epoch and the store are taken over.
    pub fn adopt(&self, grant: &LeaseGrant) -> bool {
        let same = comparable(grant) == comparable(&self.grant);
        let adopted = same
            && match self.phase() {
                Phase::Ready => true,
                // What is read comes from the store that was named first: of another, it is begun anew.
                Phase::Restoring => self.held().store_url == grant.store_url,
                // Keeps its epoch: under a new one it is tried anew.
                Phase::Failed(_) => false,
            };
        if adopted {
            *self.held() = Held { epoch: grant.epoch, store_url: grant.store_url.clone() };
        }
        adopted
    }

    pub fn recipe(&self) -> Option<&Recipe> {
        self.recipe.get()
    }

    pub fn phase(&self) -> Phase {
        self.rows().phase.clone()
    }

    pub fn fail(&self, error: ServiceError) {
        self.rows().phase = Phase::Failed(error);
        self.changed.notify_waiters();
    }

    /// Rows may be asked for from now on.
    pub fn ready(&self, recipe: Recipe, window: Window, history_bytes: u64) {
        self.history_bytes.store(history_bytes, Ordering::Relaxed);
        let _ = self.recipe.set(recipe);
        let mut rows = self.rows();
        rows.window = window;
        rows.phase = Phase::Ready;
        drop(rows);
        self.changed.notify_waiters();
        self.demand.notify_one();
    }

    /// Nobody asks a standby for rows: it is told where its job stands.
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

    /// Notes how long a batch took.
    pub fn rows_took(&self, rows: u64, time: Duration) {
        let before = self.row_time().as_secs_f64();
        let now = time.as_secs_f64() / rows.max(1) as f64;
        let smoothed = if before == 0.0 { now } else { before + (now - before) / 4.0 };
        self.row_seconds.store(smoothed.to_bits(), Ordering::Relaxed);
    }

    /// Time to make one row, lately; zero before the first.
    pub fn row_time(&self) -> Duration {
        let seconds = f64::from_bits(self.row_seconds.load(Ordering::Relaxed));
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// State and past normals.
    pub fn state_bytes(&self) -> u64 {
        let state = self.recipe().map_or(0, |recipe| recipe.slots as u64 * 4 * self.grant.range.len());
        state + self.history_bytes.load(Ordering::Relaxed)
    }

    /// Rows made and kept, and memory kept for others.
    pub fn ahead_bytes(&self) -> u64 {
        let spares = self.spares.get().map_or(0, |spares| spares.count());
        (self.rows().window.len() + spares) as u64 * 4 * self.grant.range.len()
    }

    /// Memory for up to `most` rows to come.
    pub fn spares(&self, most: usize) -> Arc<Spares> {
        let spares = self.spares.get_or_init(|| Spares::new(self.grant.range.len() as usize));
        spares.keep_at_most(most);
        spares.clone()
    }

    /// Window start, the rows in it: what a snapshot must hold beside the state. Call with the generator locked.
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

/// Without what says nothing of the rows that are made.
fn comparable(grant: &LeaseGrant) -> LeaseGrant {
    LeaseGrant { epoch: 0, next_row: 0, store_url: String::new(), pieces: vec![], ..grant.clone() }
}

#[cfg(test)]
pub(crate) mod tests {
    use proto::CoordinateRange;

    use super::*;

    pub fn shard() -> Arc<Shard> {
        Shard::new(LeaseGrant {
            job: JobId::new("j").unwrap(),
            lineage: proto::Lineage::default(),
            shard: 0,
            range: CoordinateRange { start: 0, end: 4 },
            epoch: 1,
            dimension: 4,
            plan_digest: [0; 32],
            key_commitment: [0; 32],
            next_row: 0,
            store_url: String::new(),
            pieces: vec![],
        })
    }

    #[test]
    fn a_failed_shard_is_tried_anew_under_a_new_epoch() {
        let shard = shard();
        let again = LeaseGrant { epoch: 2, ..shard.grant().clone() };
        assert!(shard.adopt(&again) && shard.epoch() == 2);
        shard.fail(ServiceError::Draining);
        let later = LeaseGrant { epoch: 3, ..again };
        assert!(!shard.adopt(&later) && shard.epoch() == 2);
    }

    #[test]
    fn a_shard_that_is_ready_goes_on_whatever_its_store_is_called() {
        let shard = shard();
        let elsewhere =
            LeaseGrant { epoch: 2, store_url: "file:///elsewhere".into(), ..shard.grant().clone() };
        assert!(!shard.adopt(&elsewhere), "it waits for a store that is not the one any more");
        assert_eq!((shard.epoch(), shard.store_url().as_str()), (1, ""));
        shard.rows().phase = Phase::Ready;
        assert!(shard.adopt(&elsewhere));
        assert_eq!((shard.epoch(), shard.store_url().as_str()), (2, "file:///elsewhere"));
        let other_plan = LeaseGrant { plan_digest: [1; 32], ..elsewhere };
        assert!(!shard.adopt(&other_plan));
    }
}
