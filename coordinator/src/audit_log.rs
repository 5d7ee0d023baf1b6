//! Audit logs: every entry of the ledger's chains as a line of JSON, in order, once it is durable, to a file or a collector.
//!
//! Entries wait for the file in memory, so that a file that can't be written, or a slow reader, stops no release. What
//! doesn't fit is counted and shown as a problem; the ledger has it all the same.

mod lines;
mod target;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use ledger::{AppendedEntry, EntryLine, Ledger};
use node::telemetry::log_export::LogExport;
use tracing::error;

use lines::{Line, Pieces};
use target::{AppendError, Target};

/// Entries that wait for the file at most.
const WAITING: usize = 65_536;
/// Entries that are taken from those that wait at once.
const BATCH: usize = 1_024;
/// The time between two attempts at a file that can't be written.
const RETRY: Duration = Duration::from_secs(1);
/// The time in which what waits may still be written when the coordinator ends.
const DRAIN: Duration = Duration::from_secs(2);

/// Writes the entries of a ledger to a file or a collector. Dropping it writes what waits, or gives up after two seconds.
pub struct AuditLog {
    shown: String,
    queue: Arc<Queue>,
}

/// What is wrong with an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFault {
    /// The file, or the collector's URL.
    pub target: String,
    /// Why it can't be written, while it can't.
    pub reason: Option<String>,
    /// Entries that are in the ledger and never will be in the file.
    pub missing: u64,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    entries: VecDeque<AppendedEntry>,
    reason: Option<String>,
    missing: u64,
    /// Entries that the writer has taken from the queue and not yet written.
    being_written: usize,
    /// Nothing more comes: what waits is written, and then the writer ends.
    is_ending: bool,
    has_ended: bool,
}

impl AuditLog {
    /// Opens the file at `path`, to which lines are appended; `-` is standard output.
    ///
    /// # Errors
    /// The file can't be opened: a coordinator that is to have an audit log does not begin without one.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let target = Target::open(path).with_context(|| format!("audit_log {shown}"))?;
        Self::begin(shown, target)
    }

    /// Sends each entry to the OpenTelemetry collector at `url` (`http://127.0.0.1:port`), which need not be there yet. An
    /// attempt that failed is made again, so a collector may get an entry more than once: its chain and index name it.
    ///
    /// # Errors
    /// The URL is none of a collector on this machine.
    pub fn to_collector(url: &str) -> anyhow::Result<Self> {
        let export =
            LogExport::start(url, "rustle-coordinator").with_context(|| format!("audit_otlp {url}"))?;
        Self::begin(url.to_owned(), Target::Collector(Box::new(export)))
    }

    fn begin(shown: String, target: Target) -> anyhow::Result<Self> {
        let queue = Arc::<Queue>::default();
        let writing = queue.clone();
        let name = shown.clone();
        let writer = move || {
            writing.write_to(target, &name);
            writing.lock().has_ended = true;
            writing.changed.notify_all();
        };
        thread::Builder::new().name("audit-log".to_owned()).spawn(writer)?;
        Ok(Self { shown, queue })
    }

    /// Has every entry that is appended to the ledger from now on written to each of the logs.
    pub fn follow(logs: &[Self], ledger: &Ledger) {
        let queues: Vec<_> = logs.iter().map(|log| log.queue.clone()).collect();
        ledger.observe(move |appended| queues.iter().for_each(|queue| queue.add(&appended)));
    }

    /// Returns what is wrong; `None` where nothing is.
    pub fn fault(&self) -> Option<AuditFault> {
        let state = self.queue.lock();
        let State { reason, missing, .. } = &*state;
        (reason.is_some() || *missing > 0).then(|| AuditFault {
            target: self.shown.clone(),
            reason: reason.clone(),
            missing: *missing,
        })
    }

    /// Has what waits written, or gives up after two seconds. Returns how many entries will not be in the file.
    pub fn end(&self) -> usize {
        let mut state = self.queue.lock();
        state.is_ending = true;
        self.queue.changed.notify_all();
        let has_not_ended = |state: &mut State| !state.has_ended;
        let waited = self.queue.changed.wait_timeout_while(state, DRAIN, has_not_ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.entries.len() + state.being_written
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let lost = self.end();
        if lost > 0 {
            error!(
                target = self.shown,
                entries = lost,
                "the audit log lacks entries for good; the ledger has them"
            );
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, appended: &[AppendedEntry]) {
        let mut state = self.lock();
        let room = WAITING.saturating_sub(state.entries.len());
        let fits = if state.is_ending { 0 } else { room.min(appended.len()) };
        state.missing += (appended.len() - fits) as u64;
        state.entries.extend(appended.iter().take(fits).cloned());
        self.changed.notify_all();
    }

    /// Writes entries as they come, until nothing more does.
    fn write_to(&self, mut target: Target, shown: &str) {
        while let Some(lines) = self.next_lines() {
            let mut pieces = Pieces::new(lines);
            while let Some(piece) = pieces.first() {
                match target.append(piece) {
                    Ok(()) => {
                        self.settle(piece.len(), 0);
                        pieces.advance();
                    }
                    Err(error) if error.is_refusal() && piece.len() > 1 => pieces.halve(),
                    Err(error) if error.is_final() => {
                        log_missing(shown, piece, &error);
                        self.settle(piece.len(), piece.len());
                        pieces.advance();
                    }
                    Err(error) if !self.waits_for(shown, &error) => return,
                    Err(_) => {}
                }
            }
        }
    }

    /// Counts entries as no longer being written, of which the log lacks `missing` for good.
    fn settle(&self, written: usize, missing: usize) {
        let mut state = self.lock();
        state.reason = None;
        state.being_written -= written;
        state.missing += missing as u64;
    }

    /// Shows an error and waits for the next attempt; returns false where there is none, as a coordinator ends.
    fn waits_for(&self, shown: &str, error: &AppendError) -> bool {
        let is_new = self.lock().reason.replace(error.to_string()).is_none();
        // Without the lock, which changes of the ledger wait for: what shows the message may be slow.
        if is_new {
            error!(target = shown, %error, "the audit log can't be written; its entries wait");
        }
        let state = self.lock();
        // Once more as a coordinator ends, and then no more.
        let goes_on = !state.is_ending;
        if goes_on {
            drop(self.changed.wait_timeout_while(state, RETRY, |state| !state.is_ending));
        }
        goes_on
    }

    /// Waits for entries, and returns them as lines; `None` once nothing more comes.
    fn next_lines(&self) -> Option<Vec<Line>> {
        let is_idle = |state: &mut State| state.entries.is_empty() && !state.is_ending;
        let state = self.changed.wait_while(self.lock(), is_idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let count = state.entries.len().min(BATCH);
        let batch: Vec<AppendedEntry> = state.entries.drain(..count).collect();
        state.being_written = count;
        drop(state);
        let lines = batch.into_iter().filter_map(|AppendedEntry { chain, entry }| {
            let line = EntryLine::new(&chain, entry).ok()?;
            Some(Line { index: line.index, text: format!("{}\n", line.to_json()), chain })
        });
        let lines: Vec<Line> = lines.collect();
        // An event that can't be read has no line.
        let unreadable = count - lines.len();
        if unreadable > 0 {
            let mut state = self.lock();
            state.missing += unreadable as u64;
            state.being_written -= unreadable;
        }
        (count > 0).then_some(lines)
    }
}

fn log_missing(shown: &str, lines: &[Line], error: &AppendError) {
    for Line { chain, index, .. } in lines {
        error!(target = shown, chain, index, %error, "the audit log lacks an entry for good; the ledger has it");
    }
}
