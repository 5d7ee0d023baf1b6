//! Rows that are bound, and fetched where they come from elsewhere, while the job still computes the sums they are for.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::{Commitment, CoordinateRange};

use crate::engine::{Ahead, Announced as Came, Asked, Engine};
use crate::error::{Refused, Result};
use crate::held::Held;
use crate::sink::Sink;
use crate::wait::Stop;

/// How often a wait looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// How long the end of a session waits: for a disk that syncs. A fetch from a cluster ends by itself.
const END: Duration = Duration::from_secs(1);

/// A session's announced rows.
#[derive(Default)]
pub struct Announced(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// Of one branch and range; each begins where the one before ends.
    groups: VecDeque<Group>,
    /// Memory of a group that is through.
    spare: Option<Held>,
}

/// Rows bound by one call.
struct Group {
    ahead: Ahead,
    values: Values,
}

enum Values {
    Coming(Receiver<Came>),
    /// As the engine said; nothing where it failed: it says why when it is asked again.
    Came(Came),
}

/// What a row is asked for with.
pub enum Got<'a> {
    Given,
    /// In the ordinary way; whether it is bound already.
    Not(Sink<'a>, bool),
}

impl Announced {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rows from `row` on are announced for that branch and range, `row` itself under that commitment where it
    /// is given; and whether some of them are still coming.
    pub fn there(
        &self,
        (branch, row): (u64, u64),
        range: CoordinateRange,
        commitment: Option<Commitment>,
    ) -> (u64, bool) {
        let mut queue = self.queue();
        queue.groups.iter_mut().for_each(Group::look);
        while queue.groups.front().is_some_and(|group| group.ahead.rows.end <= row && !group.is_coming()) {
            queue.pass();
        }
        let is_first = |group: &Group| {
            let bound = group.commitment(row);
            let is_same = (group.ahead.branch, group.ahead.range) == (branch, range);
            is_same && bound.is_some() && commitment.is_none_or(|given| bound == Some(given))
        };
        let end = queue.groups.back().map_or(row, |group| group.ahead.rows.end);
        let there = if queue.groups.iter().any(is_first) { end - row } else { 0 };
        (there, queue.groups.iter().any(Group::is_coming))
    }

    /// Begins on a thread of its own. The rows follow those announced already, of which there are none otherwise.
    pub fn begin(&self, engine: Arc<dyn Engine>, ahead: Ahead) -> Result<()> {
        let mut queue = self.queue();
        let spare = queue.spare.take();
        let (tell, arrives) = sync_channel(1);
        let asked = ahead.clone();
        let run = move || {
            let done = engine.announce(&asked, spare);
            // Before the answer: its recipient may close the ledger.
            drop(engine);
            // What failed is asked for again in the ordinary way, which says why. Nobody listens once a session ended.
            let _ = tell.send(done.unwrap_or(Came::Nothing));
        };
        let started = std::thread::Builder::new().name("rustle-announced".into()).spawn(run);
        started.map_err(|error| Refused::Here("internal", format!("no thread: {error}")))?;
        queue.groups.push_back(Group { ahead, values: Values::Coming(arrives) });
        Ok(())
    }

    /// Puts the row in `sink` if it was announced to the word and is here; else gives `sink` back.
    pub fn put<'a>(&self, asked: Asked, sink: Sink<'a>, stop: Stop) -> Result<Got<'a>> {
        let mut queue = self.queue();
        while queue.groups.front().is_some_and(|group| group.ahead.rows.end <= asked.row) {
            queue.drop_first(stop)?;
        }
        let Some(group) = queue.groups.front_mut() else { return Ok(Got::Not(sink, false)) };
        // Also for another range or commitment: what is refused is refused for what the ledger says.
        group.wait(stop)?;
        match (group.at(asked), &group.values) {
            (Some(index), Values::Came(Came::Here(held))) => {
                sink.put(held.row(index)?);
                Ok(Got::Given)
            }
            (Some(_), Values::Came(Came::Bound)) => Ok(Got::Not(sink, true)),
            _ => Ok(Got::Not(sink, false)),
        }
    }

    /// Waits for what was announced, which nobody will ask for now.
    pub fn forget(&self, stop: Stop) -> Result<()> {
        let mut queue = self.queue();
        while !queue.groups.is_empty() {
            queue.drop_first(stop)?;
        }
        Ok(())
    }

    /// The session ends.
    pub fn let_go(&self) {
        // Held by a wait whose signal handler closes the session: then it all goes with the session.
        let Ok(mut queue) = self.0.try_lock() else { return };
        let Queue { groups, .. } = std::mem::take(&mut *queue);
        for group in groups {
            if let Values::Coming(arrives) = group.values {
                let _ = arrives.recv_timeout(END);
            }
        }
    }
}

impl Queue {
    fn drop_first(&mut self, stop: Stop) -> Result<()> {
        if let Some(group) = self.groups.front_mut() {
            group.wait(stop)?;
        }
        self.pass();
        Ok(())
    }

    /// Lets go of the first group, which has come.
    fn pass(&mut self) {
        if let Some(Group { values: Values::Came(Came::Here(held)), .. }) = self.groups.pop_front() {
            self.spare = Some(held);
        }
    }
}

impl Group {
    fn index(&self, row: u64) -> Option<usize> {
        let rows = self.ahead.rows;
        (rows.start..rows.end).contains(&row).then(|| (row - rows.start) as usize)
    }

    fn commitment(&self, row: u64) -> Option<Commitment> {
        self.index(row).map(|index| self.ahead.commitments[index])
    }

    /// The row's place among the group's rows.
    fn at(&self, asked: Asked) -> Option<usize> {
        let Ahead { branch, range, .. } = self.ahead;
        let commitment = self.commitment(asked.row)?;
        let Asked { row, .. } = asked;
        (asked == Asked { branch, row, range, commitment }).then(|| self.index(row)).flatten()
    }

    fn is_coming(&self) -> bool {
        matches!(self.values, Values::Coming(_))
    }

    fn look(&mut self) {
        let Values::Coming(arrives) = &self.values else { return };
        match arrives.try_recv() {
            Ok(came) => self.values = Values::Came(came),
            Err(TryRecvError::Disconnected) => self.values = Values::Came(Came::Nothing),
            Err(TryRecvError::Empty) => {}
        }
    }

    fn wait(&mut self, stop: Stop) -> Result<()> {
        while let Values::Coming(arrives) = &self.values {
            match arrives.recv_timeout(LOOK) {
                Ok(came) => self.values = Values::Came(came),
                Err(RecvTimeoutError::Disconnected) => self.values = Values::Came(Came::Nothing),
                Err(RecvTimeoutError::Timeout) => stop()?,
            }
        }
        Ok(())
    }
}
