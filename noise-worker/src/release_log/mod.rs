//! The release log: a worker's own durable log of the rows that it has released, independent of the coordinator's ledger.
//!
//! `released.log` is append-only. Each line is a hash and a JSON object; the hash covers the object and the hash of the
//! line before. A line is on disk before the first byte of its row leaves. A last line that is cut short was never acted
//! on and is dropped; a file with any other fault is refused. Rows under another commitment, branches
//! below the highest seen and coordinators of an earlier epoch are refused.
//!
//! All of it is by ledger: jobs are distinguished by the ids of their ledgers and by their nonces, epochs by the ids alone. What
//! was released for another ledger stays on disk, and says nothing about this one, even where jobs have the same names.
//!
//! A log that lost its last lines reads as the older log that it once was: the newest hash is stored nowhere else. Its
//! remaining lines are true; the rows after them are guarded by the coordinator's ledger alone.

mod file;
mod state;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::Context;
use proto::{
    Commitment, Nonce, Result, ServiceError,
    model::{JobIdentity, JobMark, WorkerRecord},
};

use crate::sync::{Mutex, MutexGuard, PoisonError};
pub use file::{Line, LineStore};
use file::{LogFile, MemoryOnly};
use state::{JobReleases, State};

/// The most marks in one message.
const MAX_MARKS: usize = proto::MAX_MARKS_PER_MESSAGE;

/// A released row: the branch whose noise it has, and what it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasedRow {
    /// The branch whose noise the row has.
    pub branch: u64,
    /// The row, counted from 0.
    pub row: u64,
    /// The commitment that the row is bound to.
    pub commitment: Commitment,
}

/// A worker's release log.
pub struct ReleaseLog {
    /// Locked while a line is written to disk, so never by an async thread. Locked before `state`; only its holder changes
    /// what was released.
    log: Mutex<Box<dyn LineStore>>,
    /// The contents of the disk. Locked only for operations on memory: heartbeats and requests wait for it.
    state: Mutex<State>,
}

impl ReleaseLog {
    /// Reads the log in `folder`, or begins one; without a folder it lives in memory. Fails where the log is damaged, or open
    /// in another worker.
    pub fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let Some(folder) = folder else { return Ok(Self::with_store(Box::new(MemoryOnly))) };
        let mut state = State::default();
        let path = folder.join("released.log");
        let opened = LogFile::open(folder, &path, |line| state.apply(line));
        let log = opened.with_context(|| format!("the record {}", path.display()))?;
        Ok(Self { log: Mutex::new(Box::new(log)), state: Mutex::new(state) })
    }

    /// Returns an empty log whose lines go to `log`.
    pub fn with_store(log: Box<dyn LineStore>) -> Self {
        Self { log: Mutex::new(log), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that these rows may be released, as far as this worker knows. Writes nothing. Fails where a row was released
    /// under another commitment, the branch is below the highest seen, or a write has failed.
    pub fn check(&self, job: &JobIdentity, branch: u64, rows: &[ReleasedRow]) -> Result<()> {
        self.state().check(job, branch, rows)
    }

    /// Records rows as released. They are on disk when it returns, and visible to no other caller before. Checks them again,
    /// as [`Self::check`] does: two requests may race.
    pub async fn record(
        self: Arc<Self>,
        job: JobIdentity,
        branch: u64,
        rows: Vec<ReleasedRow>,
    ) -> Result<()> {
        if self.state().knows(&job, branch, &rows) {
            return Ok(());
        }
        self.blocking(move |state| {
            state.check(&job, branch, &rows)?;
            Ok(state.lines(&job, branch, &rows, 0))
        })
        .await
    }

    /// Records the epoch of a coordinator on a ledger. Fails where a higher one of that ledger was seen before.
    pub async fn observe_epoch(self: &Arc<Self>, ledger: Nonce, epoch: u64) -> Result<()> {
        self.observe(ledger, epoch, Vec::new()).await
    }

    /// Records the epoch of a coordinator on a ledger and the branches that it grants. Fails where a higher epoch of that
    /// ledger was seen before.
    pub async fn observe(
        self: &Arc<Self>,
        ledger: Nonce,
        epoch: u64,
        branches: Vec<(JobIdentity, u64)>,
    ) -> Result<()> {
        {
            let state = self.state();
            let is_known = |(job, branch): &(JobIdentity, u64)| state.knows_branch(job, *branch);
            if state.failed.is_none() && epoch == state.epoch(&ledger) && branches.iter().all(is_known) {
                return Ok(());
            }
        }
        self.clone()
            .blocking(move |state| {
                let current = state.epoch(&ledger);
                if epoch < current {
                    return Err(ServiceError::StaleEpoch { presented: epoch, current });
                }
                let mut lines = Vec::new();
                if epoch > current {
                    lines.push(Line::Epoch { ledger, epoch });
                }
                // Leases of one job name the same branch, and it is recorded once.
                let mut highest = BTreeMap::new();
                for (job, branch) in &branches {
                    let known = highest.entry(job).or_insert(0);
                    *known = (*known).max(*branch);
                }
                let mut begun = 0;
                for (job, branch) in highest {
                    // A lower branch is noticed by the coordinator, from the marks it received; its tokens are refused.
                    let of_job = state.lines(job, branch, &[], begun);
                    begun += usize::from(matches!(of_job.first(), Some(Line::Job { .. })));
                    lines.extend(of_job);
                }
                Ok(lines)
            })
            .await
    }

    /// Appends the lines that `which` finds missing, on a thread that may wait for the disk. No other caller appends in
    /// between.
    async fn blocking(
        self: Arc<Self>,
        which: impl FnOnce(&State) -> Result<Vec<Line>> + Send + 'static,
    ) -> Result<()> {
        let done = node::process::blocking::run(move || {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let lines = {
                let state = self.state();
                state.is_sound()?;
                which(&state)?
            };
            self.add(&mut **log, lines)
        });
        done.await.map_err(ServiceError::internal)?
    }

    /// Appends lines to the disk, then to the state.
    fn add(&self, log: &mut dyn LineStore, lines: Vec<Line>) -> Result<()> {
        if let Err(error) = log.append(&lines) {
            let reason = format!("this worker's record of released rows can't be written: {error}");
            tracing::error!(%reason, "nothing more is released");
            self.state().failed = Some(reason.clone());
            return Err(ServiceError::Store { reason });
        }
        let mut state = self.state();
        lines.into_iter().try_for_each(|line| state.apply(line).map_err(ServiceError::internal))
    }

    /// Returns whether a write has failed. Then nothing is released until the log is opened again.
    pub fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Returns the ledger whose coordinator was last met for the first time; `None` where no coordinator was.
    pub fn latest_ledger(&self) -> Option<Nonce> {
        self.state().latest_ledger
    }

    /// Returns the marks of all jobs and branches, with the ledgers that they are of.
    pub fn all(&self) -> Vec<(Nonce, JobMark)> {
        let state = self.state();
        let of_job = |releases: &JobReleases| {
            let ledger = releases.identity.ledger;
            releases.marks().into_iter().map(move |mark| (ledger, mark))
        };
        state.jobs.iter().flat_map(of_job).collect()
    }

    /// Returns what is to be reported to a coordinator on `ledger`: the highest epoch seen, and the marks of that ledger that
    /// it has not received, as many as one message holds.
    pub fn unreported(&self, ledger: Nonce) -> WorkerRecord {
        let state = self.state();
        let of_ledger = state.jobs.iter().filter(|releases| releases.identity.ledger == ledger);
        let marks = of_ledger.flat_map(JobReleases::unreported).take(MAX_MARKS).collect();
        WorkerRecord { ledger: Some(ledger), highest_epoch: state.epoch(&ledger), marks }
    }

    /// Forgets what was reported: another coordinator, or the same one after it was away, hears all of it.
    pub fn forget_reported(&self) {
        self.state().jobs.iter_mut().for_each(|releases| releases.reported.clear());
    }

    /// Notes that the coordinator has received a report.
    pub fn mark_reported(&self, report: &WorkerRecord) {
        let Some(ledger) = report.ledger else { return };
        let mut state = self.state();
        for mark in &report.marks {
            if let Some(releases) = state.of_mut(ledger, mark.nonce) {
                releases.reported.insert(mark.branch, mark.next_row);
            }
        }
    }
}
