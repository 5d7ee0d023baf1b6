//! A request that waits for its row.

use std::time::Duration;

use proto::{Result, ServiceError};
use tokio::time::Instant;
use tracing::Span;

use super::{Phase, Shard};
use crate::{metric_definitions::ROW_WAIT_SECONDS, row::Row, spans::is_sent};

impl Shard {
    /// The row, as soon as it is made. `None` where it has left the window and must be drawn again. The span of the
    /// caller hears how it came.
    pub async fn row(&self, row: u64, deadline: Instant) -> Result<Option<Row>> {
        let started = Instant::now();
        let mut how = "ahead";
        loop {
            // Registered before looking, so that a change in between is not missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = self.look(row)? {
                if found.is_some() {
                    Span::current().record("how", how);
                    self.forget_waiter();
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

    /// The row came by what was being made already: its span would be as long as it takes until more is made.
    fn forget_waiter(&self) {
        let mut waiter = self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if waiter.as_ref().is_some_and(|waiter| waiter.id() == Span::current().id()) {
            *waiter = None;
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

    /// For how long requests have waited with no row made.
    pub fn stalled(&self) -> Duration {
        self.rows().starved_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn late(&self, waited: Duration) -> ServiceError {
        let waited_ms = waited.as_millis() as u64;
        ServiceError::range_unavailable(self.job(), vec![self.grant.range], waited_ms)
    }
}
