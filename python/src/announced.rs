//! A row that is bound, and fetched where it comes from elsewhere, while the job still computes the sum it is for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::{Commitment, CoordinateRange};

use crate::engine::{Engine, Sink};
use crate::error::{Refused, Result};
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
    pub commitment: Commitment,
}

/// A session's announced row: none, or one.
#[derive(Default)]
pub struct Announced(Mutex<Slot>);

#[derive(Default)]
struct Slot {
    pending: Option<Pending>,
    /// Memory of the last one's values.
    spare: Vec<f32>,
}

struct Pending {
    asked: Asked,
    /// The values, or none where the engine has them at once; nothing where it failed.
    arrives: Receiver<Option<Vec<f32>>>,
}

impl Announced {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins on a thread of its own; once, however often it is announced.
    pub fn begin(&self, engine: Arc<dyn Engine>, asked: Asked, stop: Stop) -> Result<()> {
        let mut slot = self.slot();
        if slot.pending.as_ref().is_some_and(|pending| pending.asked == asked) {
            return Ok(());
        }
        slot.end(stop)?;
        let mut values = std::mem::take(&mut slot.spare);
        let (tell, arrives) = sync_channel(1);
        let run = move || {
            let Asked { branch, row, range, commitment } = asked;
            let done = engine.announce(branch, row, range, commitment, &mut values);
            // Before the answer: whoever gets it may close the ledger.
            drop(engine);
            // What failed is asked for again in the ordinary way, which says why. Nobody listens once a session ended.
            let _ = tell.send(done.ok().map(|()| values));
        };
        let started = std::thread::Builder::new().name("rustle-announced".into()).spawn(run);
        started.map_err(|error| Refused::Here("internal", format!("no thread: {error}")))?;
        slot.pending = Some(Pending { asked, arrives });
        Ok(())
    }

    /// Puts the row in `sink` if it was announced and has values; else gives `sink` back, for the ordinary way.
    pub fn put<'a>(&self, asked: Asked, sink: Sink<'a>, stop: Stop) -> Result<Option<Sink<'a>>> {
        let mut slot = self.slot();
        let wanted = slot.pending.as_ref().is_some_and(|pending| pending.asked == asked);
        slot.end(stop)?;
        if !wanted || slot.spare.is_empty() {
            return Ok(Some(sink));
        }
        sink.put(&slot.spare);
        Ok(None)
    }

    /// Waits for what was announced, which nobody will ask for now.
    pub fn forget(&self, stop: Stop) -> Result<()> {
        self.slot().end(stop)
    }

    /// The session ends.
    pub fn let_go(&self) {
        if let Some(pending) = self.slot().pending.take() {
            let _ = pending.arrives.recv_timeout(END);
        }
    }
}

impl Slot {
    /// Waits for what is pending; `spare` then holds its values, or nothing.
    fn end(&mut self, stop: Stop) -> Result<()> {
        while let Some(pending) = &self.pending {
            match pending.arrives.recv_timeout(LOOK) {
                Ok(done) => {
                    self.spare = done.unwrap_or_default();
                    self.pending = None;
                }
                Err(RecvTimeoutError::Timeout) => stop()?,
                Err(RecvTimeoutError::Disconnected) => {
                    self.spare.clear();
                    self.pending = None;
                }
            }
        }
        Ok(())
    }
}
