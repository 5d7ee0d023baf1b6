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
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use anyhow::Context;
use proto::{Commitment, JobId, Result, ServiceError, model::JobMark};

use crate::sync::{Mutex, MutexGuard, PoisonError};
pub use file::{Line, LineStore};
use file::{LogFile, MemoryOnly};

/// ReleaseLog in one message.
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

#[derive(Default)]
struct JobReleases {
    branch: u64,
    rows: BTreeMap<(u64, u64), [u8; Commitment::BYTES]>,
    /// The marks that the coordinator has received, by branch.
    reported: BTreeMap<u64, u64>,
}

impl JobReleases {
    /// Returns the next row of the highest branch seen, and of each branch before it whose own noise was released: a new
    /// branch takes nothing back. Highest branch first.
    fn watermarks(&self) -> Vec<(u64, u64)> {
        let mut watermarks = Vec::new();
        let mut below = (self.branch, u64::MAX);
        loop {
            let last = self
                .rows
                .range(..=below)
                .next_back()
                .map(|((branch, row), _)| (*branch, row.saturating_add(1)));
            if watermarks.is_empty() && last.is_none_or(|(branch, _)| branch != self.branch) {
                watermarks.push((self.branch, 0));
            }
            watermarks.extend(last);
            match last.and_then(|(branch, _)| branch.checked_sub(1)) {
                Some(branch) => below = (branch, u64::MAX),
                None => return watermarks,
            }
        }
    }

    fn marks(&self, job: &JobId) -> impl Iterator<Item = JobMark> {
        let job = job.clone();
        self.watermarks().into_iter().map(move |(branch, next_row)| JobMark {
            job: job.clone(),
            branch,
            next_row,
        })
    }
}

#[derive(Default)]
struct State {
    epoch: u64,
    jobs: HashMap<JobId, JobReleases>,
    /// The reason of a failed write. What is on disk is not known then, and nothing more is released.
    failed: Option<String>,
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

impl State {
    fn is_sound(&self) -> Result<()> {
        match &self.failed {
            Some(reason) => Err(ServiceError::Store { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn check(&self, job: &JobId, branch: u64, rows: &[ReleasedRow]) -> Result<()> {
        self.is_sound()?;
        let Some(releases) = self.jobs.get(job) else { return Ok(()) };
        if branch < releases.branch {
            let job = job.to_string();
            let current = releases.branch;
            return Err(ServiceError::BranchSuperseded { job, branch, current, from_row: 0 });
        }
        let differs = |row: &&ReleasedRow| {
            let before = releases.rows.get(&(row.branch, row.row));
            before.is_some_and(|before| *before != row.commitment.to_bytes())
        };
        match rows.iter().find(differs) {
            Some(&ReleasedRow { branch, row, .. }) => {
                Err(ServiceError::AlreadyBound { job: job.to_string(), branch, row })
            }
            None => Ok(()),
        }
    }

    fn has(&self, job: &JobId, row: &ReleasedRow) -> bool {
        self.jobs.get(job).is_some_and(|releases| releases.rows.contains_key(&(row.branch, row.row)))
    }

    /// Returns whether there is nothing to write.
    fn knows(&self, job: &JobId, branch: u64, rows: &[ReleasedRow]) -> bool {
        self.check(job, branch, rows).is_ok()
            && self.jobs.get(job).is_some_and(|releases| releases.branch == branch)
            && rows.iter().all(|row| self.has(job, row))
    }

    fn branch_line(&self, job: &JobId, branch: u64) -> Vec<Line> {
        let highest = self.jobs.get(job).map_or(0, |releases| releases.branch);
        let line = (branch > highest).then(|| Line::Branch { job: job.clone(), branch });
        line.into_iter().collect()
    }

    fn apply(&mut self, line: Line) -> Result<(), &'static str> {
        match line {
            Line::Epoch(epoch) => self.epoch = self.epoch.max(epoch),
            Line::Branch { job, branch } => {
                let releases = self.jobs.entry(job).or_default();
                releases.branch = releases.branch.max(branch);
            }
            Line::Row { job, branch, row, commitment } => {
                let mut bytes = [0; Commitment::BYTES];
                hex::decode_to_slice(commitment, &mut bytes).map_err(|_| "a commitment is 66 hex digits")?;
                self.jobs.entry(job).or_default().rows.insert((branch, row), bytes);
            }
        }
        Ok(())
    }
}
