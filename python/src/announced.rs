//! Rows that are bound, and fetched where they come from elsewhere, while the job still computes the sums they are for.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::{Commitment, CoordinateRange};

use crate::engine::{Ahead, Engine};
use crate::error::{Refused, Result};
use crate::held::Held;
use crate::sink::Sink;
use crate::wait::Stop;

/// How often a wait looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// How long the end of a session waits: for a disk that syncs. A fetch from a cluster ends by itself.
const END: Duration = Duration::from_secs(1);

/// A row is asked for as it was announced, to the word, or in the ordinary way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub branch: u64,
    pub row: u64,
    pub range: CoordinateRange,
    /// `None`: whatever it is.
    pub commitment: Option<Commitment>,
}

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
    Coming(Receiver<Option<Held>>),
    Here(Held),
    /// Nowhere: the engine has them at once, or it failed and says why when it is asked again.
    Elsewhere,
}

impl Announced {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rows from the one asked for on are announced, and whether some of them are still coming.
    pub fn there(&self, asked: Asked) -> Result<(u64, bool)> {
        let mut queue = self.queue();
        queue.groups.iter_mut().for_each(Group::look);
        while queue.groups.front().is_some_and(|group| group.ahead.rows.end <= asked.row && !group.is_coming()) {
            queue.drop_first(|| Ok(()))?;
        }
        let first = queue.groups.iter().any(|group| group.at(asked).is_some());
        let end = queue.groups.back().map_or(asked.row, |group| group.ahead.rows.end);
        let coming = queue.groups.iter().any(Group::is_coming);
        Ok((if first { end - asked.row } else { 0 }, coming))
    }

    /// Begins on a thread of its own. The rows follow those announced already, of which there are none otherwise.
    pub fn begin(&self, engine: Arc<dyn Engine>, ahead: Ahead) -> Result<()> {
        let mut queue = self.queue();
        let spare = queue.spare.take();
        let (tell, arrives) = sync_channel(1);
        let asked = ahead.clone();
        let run = move || {
            let done = engine.announce(&asked, spare);
            // Before the answer: whoever gets it may close the ledger.
            drop(engine);
            // What failed is asked for again in the ordinary way, which says why. Nobody listens once a session ended.
            let _ = tell.send(done.ok().flatten());
        };
        let started = std::thread::Builder::new().name("rustle-announced".into()).spawn(run);
        started.map_err(|error| Refused::Here("internal", format!("no thread: {error}")))?;
        queue.groups.push_back(Group { ahead, values: Values::Coming(arrives) });
        Ok(())
    }

    /// Puts the row in `sink` if it was announced and has values; else gives `sink` back, for the ordinary way.
    pub fn put<'a>(&self, asked: Asked, sink: Sink<'a>, stop: Stop) -> Result<Option<Sink<'a>>> {
        let mut queue = self.queue();
        while queue.groups.front().is_some_and(|group| group.ahead.rows.end <= asked.row) {
            queue.drop_first(stop)?;
        }
        let Some(group) = queue.groups.front_mut() else { return Ok(Some(sink)) };
        // Also for another range or commitment: what is refused is refused for what the ledger says.
        group.wait(stop)?;
        match (group.at(asked), &group.values) {
            (Some(index), Values::Here(held)) => {
                sink.put(held.row(index)?);
                Ok(None)
            }
            _ => Ok(Some(sink)),
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
        for group in self.queue().groups.drain(..) {
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
        if let Some(Group { values: Values::Here(held), .. }) = self.groups.pop_front() {
            self.spare = Some(held);
        }
        Ok(())
    }
}

impl Group {
    /// Its place among the group's rows.
    fn at(&self, asked: Asked) -> Option<usize> {
        let Ahead { branch, rows, range, commitments } = &self.ahead;
        let index = asked.row.checked_sub(rows.start)? as usize;
        let bound = *commitments.get(index)?;
        let is_same = (asked.branch, asked.range) == (*branch, *range);
        (is_same && asked.commitment.is_none_or(|commitment| commitment == bound)).then_some(index)
    }

    fn is_coming(&self) -> bool {
        matches!(self.values, Values::Coming(_))
    }

    fn arrived(&mut self, values: Option<Held>) {
        self.values = values.map_or(Values::Elsewhere, Values::Here);
    }

    fn look(&mut self) {
        let Values::Coming(arrives) = &self.values else { return };
        match arrives.try_recv() {
            Ok(values) => self.arrived(values),
            Err(TryRecvError::Disconnected) => self.arrived(None),
            Err(TryRecvError::Empty) => {}
        }
    }

    fn wait(&mut self, stop: Stop) -> Result<()> {
        while let Values::Coming(arrives) = &self.values {
            match arrives.recv_timeout(LOOK) {
                Ok(values) => self.arrived(values),
                Err(RecvTimeoutError::Disconnected) => self.arrived(None),
                Err(RecvTimeoutError::Timeout) => stop()?,
            }
        }
        Ok(())
    }
}
