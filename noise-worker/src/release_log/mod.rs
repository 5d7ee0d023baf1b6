//! The release log: a worker's own durable log of the rows that it has released, independent of the coordinator's ledger.
//!
//! `released.log` is append-only. Each line is a hash and a JSON object; the hash covers the object and the hash of the
//! line before. A line is on disk before the first byte of its row leaves. A last line that is cut short was never acted
//! on and is dropped; a file with any other fault is refused. Rows under another commitment, branches
//! below the highest seen and coordinators of an earlier epoch are refused.
//!
//! A log that lost its last lines reads as the older log that it once was: the newest hash is stored nowhere else. Its
//! remaining lines are true; the rows after them are guarded by the coordinator's ledger alone.

mod file;
mod state;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::Context;
use proto::{Commitment, JobId, Result, ServiceError, model::JobMark};

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
    pub fn check(&self, job: &JobId, branch: u64, rows: &[ReleasedRow]) -> Result<()> {
        self.state().check(job, branch, rows)
    }

    /// Records rows as released. They are on disk when it returns, and visible to no other caller before. Checks them again,
    /// as [`Self::check`] does: two requests may race.
    pub async fn record(self: Arc<Self>, job: JobId, branch: u64, rows: Vec<ReleasedRow>) -> Result<()> {
        if self.state().knows(&job, branch, &rows) {
            return Ok(());
        }
        self.blocking(move |state| {
            state.check(&job, branch, &rows)?;
            let mut lines = state.branch_line(&job, branch);
            lines.extend(rows.iter().filter(|row| !state.has(&job, row)).map(|row| Line::Row {
                job: job.clone(),
                branch: row.branch,
                row: row.row,
                commitment: hex::encode(row.commitment.to_bytes()),
            }));
            Ok(lines)
        })
        .await
    }

    /// Records the epoch of a coordinator. Fails where a higher one was seen before.
    pub async fn observe_epoch(self: &Arc<Self>, epoch: u64) -> Result<()> {
        self.observe(epoch, Vec::new()).await
    }

    /// Records the epoch of a coordinator and the branches that it grants. Fails where a higher epoch was seen before.
    pub async fn observe(self: &Arc<Self>, epoch: u64, branches: Vec<(JobId, u64)>) -> Result<()> {
        {
            let state = self.state();
            let known = |(job, branch): &(JobId, u64)| match state.jobs.get(job) {
                Some(releases) => releases.branch == *branch,
                None => *branch == 0,
            };
            if state.failed.is_none() && epoch == state.epoch && branches.iter().all(known) {
                return Ok(());
            }
        }
        self.clone()
            .blocking(move |state| {
                if epoch < state.epoch {
                    return Err(ServiceError::StaleEpoch { presented: epoch, current: state.epoch });
                }
                let mut lines = Vec::new();
                if epoch > state.epoch {
                    lines.push(Line::Epoch(epoch));
                }
                // Leases of one job name the same branch, and it is recorded once.
                let mut highest = BTreeMap::new();
                for (job, branch) in &branches {
                    let known = highest.entry(job).or_insert(0);
                    *known = (*known).max(*branch);
                }
                for (job, branch) in highest {
                    // A lower branch is noticed by the coordinator, from the marks it received; its tokens are refused.
                    lines.extend(state.branch_line(job, branch));
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

    /// Returns the marks of all jobs and branches.
    pub fn all(&self) -> Vec<JobMark> {
        self.state().jobs.iter().flat_map(|(job, releases)| releases.marks(job)).collect()
    }

    /// Returns the marks that the coordinator has not received, as many as one message holds.
    pub fn unreported(&self) -> Vec<JobMark> {
        let state = self.state();
        let unreported = |(job, releases): (&JobId, &JobReleases)| {
            let is_new = |mark: &JobMark| releases.reported.get(&mark.branch) != Some(&mark.next_row);
            releases.marks(job).filter(is_new).collect::<Vec<_>>()
        };
        state.jobs.iter().flat_map(unreported).take(MAX_MARKS).collect()
    }

    /// Makes all marks unreported: another coordinator, or a restarted one, has received none of them.
    pub fn forget_reported(&self) {
        self.state().jobs.values_mut().for_each(|releases| releases.reported.clear());
    }

    /// Notes that the coordinator has received these marks.
    pub fn mark_reported(&self, marks: &[JobMark]) {
        let mut state = self.state();
        for mark in marks {
            if let Some(releases) = state.jobs.get_mut(&mark.job) {
                releases.reported.insert(mark.branch, mark.next_row);
            }
        }
    }
}
