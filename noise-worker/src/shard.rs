//! One shard of one job: its rows made ahead within a bound, and waited for where they are not.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use noise_kernel::Generator;
use proto::{JobId, Result, ServiceError, model::LeaseGrant};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    kernel_span::is_sent,
    metric_definitions::ROW_WAIT_SECONDS,
    recipe::Recipe,
    row::{Row, Spares, Window},
};

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

/// Shared between the task that makes rows, requests, and snapshots.
pub struct Shard {
    grant: LeaseGrant,
    /// Rises when the same worker is granted the shard anew.
    epoch: Mutex<u64>,
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
            epoch: Mutex::new(grant.epoch),
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

    pub fn grant(&self) -> &LeaseGrant {
        &self.grant
    }

    pub fn job(&self) -> &JobId {
        &self.grant.job
    }

    pub fn epoch(&self) -> u64 {
        *self.epoch.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// True where this shard's state serves the new grant too; only the epoch is taken over.
    pub fn adopt(&self, grant: &LeaseGrant) -> bool {
        let same = LeaseGrant { epoch: 0, next_row: 0, pieces: vec![], ..grant.clone() }
            == LeaseGrant { epoch: 0, next_row: 0, pieces: vec![], ..self.grant.clone() };
        // A failed shard keeps its epoch: under a new one it is tried anew.
        let adopted = same && !matches!(self.phase(), Phase::Failed(_));
        if adopted {
            *self.epoch.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = grant.epoch;
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

    /// Whether half of the rows that may be made ahead are there, or all rows of the job.
    pub fn is_ahead(&self, ahead_rows: u64) -> bool {
        let Some(iterations) = self.recipe().map(|recipe| recipe.iterations) else { return false };
        let rows = self.rows();
        rows.window.end() >= (rows.wanted + (ahead_rows / 2).max(1)).min(iterations)
    }

    pub fn next_row(&self) -> u64 {
        self.rows().window.end()
    }

    /// For how long requests have waited with no row made.
    pub fn stalled(&self) -> Duration {
        self.rows().starved_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub fn released(&self) -> u64 {
        self.rows().released
    }

    /// Notes how long a batch took.
    pub fn rows_took(&self, rows: u64, time: Duration) {
        let (before, now) = (self.row_time().as_secs_f64(), time.as_secs_f64() / rows.max(1) as f64);
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

    /// Rows made beyond the highest that was asked for.
    pub fn rows_ahead(&self) -> u64 {
        let rows = self.rows();
        rows.window.end().saturating_sub(rows.wanted)
    }

    /// Rows to go through before those that are wanted.
    pub fn rows_behind(&self) -> u64 {
        let rows = self.rows();
        rows.wanted.saturating_sub(KEPT_BEHIND).saturating_sub(rows.window.end())
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

    /// What to make next: rows to pass over without keeping them, or rows to keep; `None` where there is no room in
    /// the window for a batch. Batches are as large as half the window allows: rows made together share each pass over
    /// the state, and meanwhile the other half serves.
    pub fn next_batch(&self, ahead_rows: u64, iterations: u64, at_once: u64) -> Option<Batch> {
        let mut rows = self.rows();
        let keep_from = rows.wanted.saturating_sub(KEPT_BEHIND);
        let next = rows.window.end();
        rows.window.forget_below(keep_from.min(next));
        if next < keep_from {
            // Without state there is nothing to go through.
            let stateless = self.recipe().is_some_and(|recipe| recipe.slots == 0);
            let most = if stateless { u64::MAX } else { at_once.max(16) };
            return Some(Batch::Skip((keep_from - next).min(most)));
        }
        let end = (rows.wanted + ahead_rows.max(1)).min(iterations);
        let room = end.saturating_sub(next);
        let batch = batch_rows(ahead_rows, at_once);
        let waited_for = next < rows.wanted;
        let enough = room >= batch || end == iterations || waited_for;
        (room > 0 && enough).then(|| Batch::Keep(room.min(batch)))
    }

    pub fn push(&self, made: Vec<Row>) {
        let mut rows = self.rows();
        made.into_iter().for_each(|row| rows.window.push(row));
        rows.starved_since = None;
        drop(rows);
        self.changed.notify_waiters();
    }

    /// Rows were made and not kept: an empty window moves on.
    pub fn skipped(&self, to: u64) {
        let mut rows = self.rows();
        rows.window.forget_below(to);
        rows.starved_since = None;
    }

    pub async fn demanded(&self) {
        self.demand.notified().await;
    }

    /// The row, as soon as it is made. `None` where it has left the window and must be drawn again.
    pub async fn row(&self, row: u64, deadline: Instant) -> Result<Option<Row>> {
        let started = Instant::now();
        let mut how = "ahead";
        loop {
            // Registered before looking, so that a change in between is not missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = self.look(row)? {
                if found.is_some() {
                    metrics::histogram!(ROW_WAIT_SECONDS, "how" => how).record(started.elapsed());
                }
                return Ok(found);
            }
            how = "waited";
            self.keep_waiter();
            let wait = deadline.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                () = changed => {}
                () = self.cancelled.cancelled() => return Err(self.not_owner()),
                () = tokio::time::sleep(wait) => return Err(self.late(started.elapsed())),
            }
        }
    }

    /// For its trace, where there is one.
    fn keep_waiter(&self) {
        let span = Span::current();
        if is_sent(&span) {
            *self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(span);
        }
    }

    pub fn take_waiter(&self) -> Span {
        let waiter = self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        waiter.unwrap_or_else(Span::none)
    }

    /// `None`: not yet; `Some(None)`: no longer.
    fn look(&self, row: u64) -> Result<Option<Option<Row>>> {
        let mut rows = self.rows();
        match &rows.phase {
            Phase::Failed(error) => return Err(error.clone()),
            Phase::Restoring => return Ok(None),
            Phase::Ready => {}
        }
        if row < rows.window.start() {
            return Ok(Some(None));
        }
        rows.wanted = rows.wanted.max(row + 1);
        let found = rows.window.get(row).cloned();
        if found.is_none() {
            rows.starved_since.get_or_insert_with(Instant::now);
            self.demand.notify_one();
        }
        Ok(found.map(Some))
    }

    /// A row was delivered, or won't be: now the next ones are worth making. Not before, so that making them does
    /// not take the cores from delivering what is ready.
    pub fn served(&self) {
        self.demand.notify_one();
    }

    pub fn mark_released(&self, row: u64) {
        let mut rows = self.rows();
        rows.released = rows.released.max(row + 1);
    }

    pub fn not_owner(&self) -> ServiceError {
        ServiceError::NotOwner { job: self.job().to_string(), shard: self.grant.shard }
    }

    fn late(&self, waited: Duration) -> ServiceError {
        let waited_ms = waited.as_millis() as u64;
        ServiceError::RangeUnavailable {
            job: self.job().to_string(),
            missing: vec![self.grant.range],
            waited_ms,
        }
    }
}

/// Rows of a batch: as many as share a pass over the state, but at most half of the window.
pub fn batch_rows(ahead_rows: u64, at_once: u64) -> u64 {
    at_once.min(ahead_rows / 2).max(1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    Skip(u64),
    Keep(u64),
}

#[cfg(test)]
mod tests {
    use proto::CoordinateRange;

    use super::*;

    fn shard() -> Arc<Shard> {
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

    /// Makes what is asked for and says how much that was.
    fn make(shard: &Shard, ahead: u64, iterations: u64) -> u64 {
        match shard.next_batch(ahead, iterations, 8) {
            Some(Batch::Keep(rows)) => {
                shard.push((0..rows).map(|_| Row::new(vec![0.0; 4])).collect());
                rows
            }
            None => 0,
            skip => panic!("{skip:?}"),
        }
    }

    #[test]
    fn half_a_window_is_made_at_once() {
        let shard = shard();
        assert_eq!([make(&shard, 8, 100), make(&shard, 8, 100), make(&shard, 8, 100)], [4, 4, 0]);
        // Nothing is worth making until four rows are gone.
        for row in 0..3 {
            shard.rows().wanted = row + 1;
            assert_eq!(make(&shard, 8, 100), 0, "after row {row}");
        }
        shard.rows().wanted = 4;
        assert_eq!(make(&shard, 8, 100), 4);
    }

    #[test]
    fn a_row_that_is_waited_for_is_made_with_any_room() {
        for ahead in [1, 2, 3] {
            let shard = shard();
            for row in 0..20 {
                shard.rows().wanted = row + 1;
                while shard.rows().window.end() <= row {
                    assert!(make(&shard, ahead, 20) > 0, "{ahead} ahead, row {row}");
                }
            }
            assert_eq!(make(&shard, ahead, 20), 0);
        }
        // The last rows are fewer than a batch.
        let shard = shard();
        assert_eq!([make(&shard, 16, 11), make(&shard, 16, 11), make(&shard, 16, 11)], [8, 3, 0]);
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
}
