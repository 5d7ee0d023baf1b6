//! The worker's own record of what it has released: a guard that does not trust the coordinator's ledger.
//!
//! `released.log` is only ever added to. Each line is a hash and a JSON object; the hash covers the object and the hash
//! of the line before. A line is on disk before the first byte of its row leaves. A last line that is cut was never
//! acted on, and is dropped; any other fault within the lines refuses the file. Rows under another commitment, branches
//! below the highest seen and coordinators of an earlier epoch are refused.
//!
//! A record that lost its last lines reads as the older one that it once was, wherever it was cut: the newest hash is
//! kept nowhere else. What it says is true as far as it goes; for the rows after, the coordinator's ledger alone guards.

mod log;
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
pub use log::{Line, Lines};
use log::{Log, Nowhere};

/// Marks in one message.
const MOST_TOLD: usize = proto::MOST_MARKS_TOLD;

/// A row, the branch whose Z it has, and what it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    pub branch: u64,
    pub row: u64,
    pub commitment: Commitment,
}

#[derive(Default)]
struct OfJob {
    branch: u64,
    rows: BTreeMap<(u64, u64), [u8; Commitment::BYTES]>,
    /// The marks that the coordinator has been told, by branch.
    told: BTreeMap<u64, u64>,
}

impl OfJob {
    /// Of the highest branch seen, and of each before of whose own Z a row has left: what was released there is not taken
    /// back by a branch. Highest first.
    fn heights(&self) -> Vec<(u64, u64)> {
        let mut heights = Vec::new();
        let mut below = (self.branch, u64::MAX);
        loop {
            let last = self
                .rows
                .range(..=below)
                .next_back()
                .map(|((branch, row), _)| (*branch, row.saturating_add(1)));
            if heights.is_empty() && last.is_none_or(|(branch, _)| branch != self.branch) {
                heights.push((self.branch, 0));
            }
            heights.extend(last);
            match last.and_then(|(branch, _)| branch.checked_sub(1)) {
                Some(branch) => below = (branch, u64::MAX),
                None => return heights,
            }
        }
    }

    fn marks(&self, job: &JobId) -> impl Iterator<Item = JobMark> {
        let job = job.clone();
        self.heights().into_iter().map(move |(branch, next_row)| JobMark {
            job: job.clone(),
            branch,
            next_row,
        })
    }
}

#[derive(Default)]
struct State {
    epoch: u64,
    jobs: HashMap<JobId, OfJob>,
    /// A write failed: what is on disk is not known, and nothing more is released.
    failed: Option<String>,
}

pub struct Marks {
    /// Held for as long as a line takes to the disk, so never by an async thread. Taken before `state`, and nobody else
    /// changes what was released.
    log: Mutex<Box<dyn Lines>>,
    /// What is on disk. Held for as long as memory takes: heartbeats and requests wait for it.
    state: Mutex<State>,
}

impl Marks {
    /// Reads the record in `folder`, or begins one. Error: it is damaged, or another worker's.
    pub fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let Some(folder) = folder else { return Ok(Self::over(Box::new(Nowhere))) };
        let mut state = State::default();
        let path = folder.join("released.log");
        let opened = Log::open(folder, &path, |line| state.take(line));
        let log = opened.with_context(|| format!("the record {}", path.display()))?;
        Ok(Self { log: Mutex::new(Box::new(log)), state: Mutex::new(state) })
    }

    /// An empty record whose lines go to `log`.
    pub fn over(log: Box<dyn Lines>) -> Self {
        Self { log: Mutex::new(log), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these rows may be released as far as this worker knows. Nothing is written.
    pub fn check(&self, job: &JobId, branch: u64, rows: &[Released]) -> Result<()> {
        self.state().check(job, branch, rows)
    }

    /// Notes rows as released; on disk when it returns, and known to nobody before. Checked again: two requests may meet.
    pub async fn note(self: Arc<Self>, job: JobId, branch: u64, rows: Vec<Released>) -> Result<()> {
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

    /// Takes the epoch for the highest. Error: a higher one was seen before.
    pub async fn see_epoch(self: &Arc<Self>, epoch: u64) -> Result<()> {
        self.see(epoch, Vec::new()).await
    }

    /// The epoch and the branches that a coordinator grants. Error: higher ones were seen before.
    pub async fn see(self: &Arc<Self>, epoch: u64, branches: Vec<(JobId, u64)>) -> Result<()> {
        {
            let state = self.state();
            let known = |(job, branch): &(JobId, u64)| match state.jobs.get(job) {
                Some(of_job) => of_job.branch == *branch,
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
                for (job, branch) in &branches {
                    // A lower one is the coordinator's to notice, by the mark it was told; its tokens are refused.
                    lines.extend(state.branch_line(job, *branch));
                }
                Ok(lines)
            })
            .await
    }

    /// Adds the lines that `which` finds missing, on a thread that may wait for the disk. Nobody else adds any between
    /// its look and the end.
    async fn blocking(
        self: Arc<Self>,
        which: impl FnOnce(&State) -> Result<Vec<Line>> + Send + 'static,
    ) -> Result<()> {
        let done = node::blocking::run(move || {
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

    /// On disk when it returns, then taken in. Whoever writes next finds what became of it.
    fn add(&self, log: &mut dyn Lines, lines: Vec<Line>) -> Result<()> {
        if let Err(error) = log.append(&lines) {
            let reason = format!("this worker's record of released rows can't be written: {error}");
            tracing::error!(%reason, "nothing more is released");
            self.state().failed = Some(reason.clone());
            return Err(ServiceError::Store { reason });
        }
        let mut state = self.state();
        lines.into_iter().try_for_each(|line| state.take(line).map_err(ServiceError::internal))
    }

    /// Whether a write has failed. Then nothing is released until the record is read anew.
    pub fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Of every job and branch.
    pub fn all(&self) -> Vec<JobMark> {
        self.state().jobs.iter().flat_map(|(job, of_job)| of_job.marks(job)).collect()
    }

    /// Those that the coordinator has not been told, as many as one message holds; the others are the next ones'.
    pub fn risen(&self) -> Vec<JobMark> {
        let state = self.state();
        let risen = |(job, of_job): (&JobId, &OfJob)| {
            let is_new = |mark: &JobMark| of_job.told.get(&mark.branch) != Some(&mark.next_row);
            of_job.marks(job).filter(is_new).collect::<Vec<_>>()
        };
        state.jobs.iter().flat_map(risen).take(MOST_TOLD).collect()
    }

    /// Another coordinator, or the same one anew, knows none of them.
    pub fn forget_told(&self) {
        self.state().jobs.values_mut().for_each(|of_job| of_job.told.clear());
    }

    /// The coordinator has answered to these.
    pub fn told(&self, marks: &[JobMark]) {
        let mut state = self.state();
        for mark in marks {
            if let Some(of_job) = state.jobs.get_mut(&mark.job) {
                of_job.told.insert(mark.branch, mark.next_row);
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

    fn check(&self, job: &JobId, branch: u64, rows: &[Released]) -> Result<()> {
        self.is_sound()?;
        let Some(of_job) = self.jobs.get(job) else { return Ok(()) };
        if branch < of_job.branch {
            let job = job.to_string();
            let current = of_job.branch;
            return Err(ServiceError::BranchSuperseded { job, branch, current, from_row: 0 });
        }
        let differs = |row: &&Released| {
            let before = of_job.rows.get(&(row.branch, row.row));
            before.is_some_and(|before| *before != row.commitment.to_bytes())
        };
        match rows.iter().find(differs) {
            Some(&Released { branch, row, .. }) => {
                Err(ServiceError::AlreadyBound { job: job.to_string(), branch, row })
            }
            None => Ok(()),
        }
    }

    fn has(&self, job: &JobId, row: &Released) -> bool {
        self.jobs.get(job).is_some_and(|of_job| of_job.rows.contains_key(&(row.branch, row.row)))
    }

    /// Whether there is nothing to write.
    fn knows(&self, job: &JobId, branch: u64, rows: &[Released]) -> bool {
        self.check(job, branch, rows).is_ok()
            && self.jobs.get(job).is_some_and(|of_job| of_job.branch == branch)
            && rows.iter().all(|row| self.has(job, row))
    }

    fn branch_line(&self, job: &JobId, branch: u64) -> Vec<Line> {
        let highest = self.jobs.get(job).map_or(0, |of_job| of_job.branch);
        let line = (branch > highest).then(|| Line::Branch { job: job.clone(), branch });
        line.into_iter().collect()
    }

    fn take(&mut self, line: Line) -> Result<(), &'static str> {
        match line {
            Line::Epoch(epoch) => self.epoch = self.epoch.max(epoch),
            Line::Branch { job, branch } => {
                let of_job = self.jobs.entry(job).or_default();
                of_job.branch = of_job.branch.max(branch);
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
