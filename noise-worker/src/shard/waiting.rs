//! A request that waits for its row.

use std::time::Duration;

use proto::{Result, ServiceError};
use tokio::time::Instant;
use tracing::Span;

use super::{Phase, Shard, row::Row};
use crate::{metric_definitions::ROW_WAIT_SECONDS, spans::is_sent};

/// The availability of a row.
#[derive(Debug)]
enum Lookup {
    /// The row is not generated yet.
    NotYet,
    /// The row has left the window, and must be replayed.
    Gone,
    /// The row is in the window.
    Here(Row),
}

impl Shard {
    /// Returns the row as soon as it is generated; `None` where it has left the window and must be replayed. Records in the
    /// caller's span how the row was obtained. Fails at the deadline, and where the lease is lost or the shard has failed.
    pub async fn row(&self, row: u64, deadline: Instant) -> Result<Option<Row>> {
        let started = Instant::now();
        let mut how = "ahead";
        loop {
            // Registered before looking, so that a change in between is not missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.look_up(row)? {
                Lookup::Here(found) => {
                    Span::current().record("how", how);
                    self.clear_waiter();
                    metrics::histogram!(ROW_WAIT_SECONDS, "how" => how).record(started.elapsed());
                    return Ok(Some(found));
                }
                Lookup::Gone => return Ok(None),
                Lookup::NotYet => {}
            }
            how = "waited";
            self.set_waiter();
            let wait = deadline.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                () = changed => {}
                () = self.cancelled.cancelled() => return Err(self.not_owner()),
                () = tokio::time::sleep(wait) => return Err(self.late(started.elapsed())),
            }
        }
    }

    /// Makes the current span that of the waiting call, where it is traced.
    fn set_waiter(&self) {
        let span = Span::current();
        if is_sent(&span) {
            *self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(span);
        }
    }

    /// Clears the waiting call where it is the current one. Its row came with a batch that had begun already, and its span
    /// would last until the next batch.
    fn clear_waiter(&self) {
        let mut waiter = self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if waiter.as_ref().is_some_and(|waiter| waiter.id() == Span::current().id()) {
            *waiter = None;
        }
    }

    /// Takes the span of the call that waits for the next batch.
    pub fn take_waiter(&self) -> Span {
        let waiter = self.waiter.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        waiter.unwrap_or_else(Span::none)
    }

    fn look_up(&self, row: u64) -> Result<Lookup> {
        let mut rows = self.rows();
        match &rows.phase {
            Phase::Failed(error) => return Err(error.clone()),
            Phase::Restoring => return Ok(Lookup::NotYet),
            Phase::Ready => {}
        }
        if row < rows.window.start() {
            return Ok(Lookup::Gone);
        }
        rows.wanted = rows.wanted.max(row + 1);
        if let Some(found) = rows.window.get(row) {
            return Ok(Lookup::Here(found.clone()));
        }
        rows.starved_since.get_or_insert_with(Instant::now);
        self.demand.notify_one();
        Ok(Lookup::NotYet)
    }

    /// Resumes generation after a row is delivered or abandoned. Not before, so that generating does not take the cores
    /// from delivering what is ready.
    pub fn row_done(&self) {
        self.demand.notify_one();
    }

    /// Returns how long requests have waited while no row was generated.
    pub fn stalled(&self) -> Duration {
        self.rows().starved_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn late(&self, waited: Duration) -> ServiceError {
        let waited_ms = waited.as_millis() as u64;
        ServiceError::range_unavailable(self.job(), vec![self.grant.range], waited_ms)
    }
}
