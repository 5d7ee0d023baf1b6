//! The contents of a release log in memory: what may be released, and what each job's watermarks are.

use std::collections::{BTreeMap, HashMap};

use proto::{Commitment, JobId, Result, ServiceError, model::JobMark};

use super::{Line, ReleasedRow};

#[derive(Default)]
pub(super) struct JobReleases {
    pub(super) branch: u64,
    rows: BTreeMap<(u64, u64), [u8; Commitment::BYTES]>,
    /// The marks that the coordinator has received, by branch.
    pub(super) reported: BTreeMap<u64, u64>,
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

    pub(super) fn marks(&self, job: &JobId) -> impl Iterator<Item = JobMark> {
        let job = job.clone();
        self.watermarks().into_iter().map(move |(branch, next_row)| JobMark {
            job: job.clone(),
            branch,
            next_row,
        })
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) epoch: u64,
    pub(super) jobs: HashMap<JobId, JobReleases>,
    /// The reason of a failed write. What is on disk is not known then, and nothing more is released.
    pub(super) failed: Option<String>,
}

impl State {
    pub(super) fn is_sound(&self) -> Result<()> {
        match &self.failed {
            Some(reason) => Err(ServiceError::Store { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    pub(super) fn check(&self, job: &JobId, branch: u64, rows: &[ReleasedRow]) -> Result<()> {
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

    pub(super) fn has(&self, job: &JobId, row: &ReleasedRow) -> bool {
        self.jobs.get(job).is_some_and(|releases| releases.rows.contains_key(&(row.branch, row.row)))
    }

    /// Returns whether there is nothing to write.
    pub(super) fn knows(&self, job: &JobId, branch: u64, rows: &[ReleasedRow]) -> bool {
        self.check(job, branch, rows).is_ok()
            && self.jobs.get(job).is_some_and(|releases| releases.branch == branch)
            && rows.iter().all(|row| self.has(job, row))
    }

    pub(super) fn branch_line(&self, job: &JobId, branch: u64) -> Vec<Line> {
        let highest = self.jobs.get(job).map_or(0, |releases| releases.branch);
        let line = (branch > highest).then(|| Line::Branch { job: job.clone(), branch });
        line.into_iter().collect()
    }

    pub(super) fn apply(&mut self, line: Line) -> Result<(), &'static str> {
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
