//! Rows that are bound, and fetched where they come from elsewhere, while the job still computes the sums they are for.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::{Commitment, CoordinateRange};

use crate::engine::{Engine, Reservation, ReserveOutcome, RowRequest};
use crate::error::{Refused, Result};
use crate::row::Row;
use crate::row_buffer::RowBuffer;
use crate::sink::Sink;
use crate::wait::Stop;

/// The time between two checks for signals during a wait.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The longest that closing a session waits, for a disk that syncs. A fetch from a cluster ends by itself.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A session's reserved rows.
#[derive(Default)]
pub struct ReservedRows(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// Groups of one branch and range, each of which begins where the one before ends.
    groups: VecDeque<Group>,
    /// Memory of a group whose steps are over.
    spare: Option<RowBuffer>,
}

/// Rows reserved by one call.
struct Group {
    reservation: Reservation,
    values: Values,
}

enum Values {
    Pending(Receiver<ReserveOutcome>),
    /// What the engine returned; `Nothing` where it failed, since the ordinary request will state the reason.
    Arrived(ReserveOutcome),
}

/// The outcome of looking for a row among the reserved ones.
pub enum Lookup<'a> {
    /// The row is in the sink.
    Written,
    /// The row must be fetched into this sink. The flag says whether it is bound already.
    Missing(Sink<'a>, bool),
}

impl ReservedRows {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many rows from `row` on are reserved for this branch and range, and whether some of them have not
    /// arrived. With a `commitment`, rows count only if `row` is reserved under it.
    pub fn available(
        &self,
        (branch, row): (u64, u64),
        range: CoordinateRange,
        commitment: Option<Commitment>,
    ) -> (u64, bool) {
        let mut queue = self.queue();
        queue.groups.iter_mut().for_each(Group::poll);
        while queue.groups.front().is_some_and(|group| group.end() <= row && !group.is_pending()) {
            queue.drop_front();
        }
        let matches = |group: &Group| {
            let bound = group.commitment(row);
            let is_same = (group.reservation.branch, group.reservation.range) == (branch, range);
            is_same && bound.is_some() && commitment.is_none_or(|requested| bound == Some(requested))
        };
        let end = queue.groups.back().map_or(row, Group::end);
        let available = if queue.groups.iter().any(matches) { end - row } else { 0 };
        (available, queue.groups.iter().any(Group::is_pending))
    }

    /// Starts a reservation on a thread of its own. Its rows follow those that are reserved already, if there are any.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(&self, engine: Arc<dyn Engine>, reservation: Reservation) -> Result<()> {
        let mut queue = self.queue();
        let spare = queue.spare.take();
        let (sender, receiver) = sync_channel(1);
        let rows = reservation.clone();
        let run = move || {
            let outcome = engine.reserve(&rows, spare);
            // Before the answer: its receiver may close the ledger.
            drop(engine);
            // The receiver is gone where the session has ended.
            let _ = sender.send(outcome.unwrap_or(ReserveOutcome::Nothing));
        };
        let started = std::thread::Builder::new().name("rustle-reserve".into()).spawn(run);
        started.map_err(|error| Refused::Here("internal", format!("no thread: {error}")))?;
        queue.groups.push_back(Group { reservation, values: Values::Pending(receiver) });
        Ok(())
    }

    /// Writes the row to `sink` if exactly this request was reserved and has arrived; otherwise returns the sink.
    pub fn take<'a>(&self, request: RowRequest, sink: Sink<'a>, stop: Stop) -> Result<Lookup<'a>> {
        let mut queue = self.queue();
        while queue.groups.front().is_some_and(|group| group.end() <= request.row) {
            queue.wait_and_drop_front(stop)?;
        }
        let Some(group) = queue.groups.front_mut() else { return Ok(Lookup::Missing(sink, false)) };
        // Also for another range or commitment: an answer must see everything that the ledger has bound.
        group.wait(stop)?;
        match (group.index_of(request), &group.values) {
            (Some(index), Values::Arrived(ReserveOutcome::Fetched(rows))) => {
                sink.put(Row::Floats(rows.row(index)?))?;
                Ok(Lookup::Written)
            }
            (Some(_), Values::Arrived(ReserveOutcome::Bound)) => Ok(Lookup::Missing(sink, true)),
            _ => Ok(Lookup::Missing(sink, false)),
        }
    }

    /// Waits for all reservations to end and discards their rows: no step will use them.
    pub fn discard(&self, stop: Stop) -> Result<()> {
        let mut queue = self.queue();
        while !queue.groups.is_empty() {
            queue.wait_and_drop_front(stop)?;
        }
        Ok(())
    }

    /// Ends all reservations, as far as they end within [`CLOSE_TIMEOUT`].
    pub fn close(&self) {
        // A wait whose signal handler closes the session holds the lock: the rows are dropped with the session then.
        let Ok(mut queue) = self.0.try_lock() else { return };
        let Queue { groups, .. } = std::mem::take(&mut *queue);
        for group in groups {
            if let Values::Pending(receiver) = group.values {
                let _ = receiver.recv_timeout(CLOSE_TIMEOUT);
            }
        }
    }
}

impl Queue {
    fn wait_and_drop_front(&mut self, stop: Stop) -> Result<()> {
        if let Some(group) = self.groups.front_mut() {
            group.wait(stop)?;
        }
        self.drop_front();
        Ok(())
    }

    /// Drops the first group, which has arrived, and keeps its memory.
    fn drop_front(&mut self) {
        let front = self.groups.pop_front();
        if let Some(Group { values: Values::Arrived(ReserveOutcome::Fetched(rows)), .. }) = front {
            self.spare = Some(rows);
        }
    }
}

impl Group {
    fn end(&self) -> u64 {
        self.reservation.rows.end
    }

    fn index(&self, row: u64) -> Option<usize> {
        let rows = self.reservation.rows;
        (rows.start..rows.end).contains(&row).then(|| (row - rows.start) as usize)
    }

    fn commitment(&self, row: u64) -> Option<Commitment> {
        self.index(row).map(|index| self.reservation.commitments[index])
    }

    /// Returns the index of the requested row in the group, if the request is exactly what was reserved.
    fn index_of(&self, request: RowRequest) -> Option<usize> {
        let Reservation { branch, range, .. } = self.reservation;
        let commitment = self.commitment(request.row)?;
        let reserved = RowRequest { branch, row: request.row, range, commitment };
        (request == reserved).then(|| self.index(request.row)).flatten()
    }

    fn is_pending(&self) -> bool {
        matches!(self.values, Values::Pending(_))
    }

    fn poll(&mut self) {
        let Values::Pending(receiver) = &self.values else { return };
        match receiver.try_recv() {
            Ok(outcome) => self.values = Values::Arrived(outcome),
            Err(TryRecvError::Disconnected) => self.values = Values::Arrived(ReserveOutcome::Nothing),
            Err(TryRecvError::Empty) => {}
        }
    }

    fn wait(&mut self, stop: Stop) -> Result<()> {
        while let Values::Pending(receiver) = &self.values {
            match receiver.recv_timeout(SIGNAL_INTERVAL) {
                Ok(outcome) => self.values = Values::Arrived(outcome),
                Err(RecvTimeoutError::Disconnected) => self.values = Values::Arrived(ReserveOutcome::Nothing),
                Err(RecvTimeoutError::Timeout) => stop()?,
            }
        }
        Ok(())
    }
}
