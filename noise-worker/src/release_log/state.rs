//! The contents of a release log in memory: what may be released, and what the watermarks of each job are.

use std::collections::{BTreeMap, HashMap};

use proto::{
    Commitment, Nonce, Result, ServiceError,
    model::{JobIdentity, JobMark},
};

use super::{Line, ReleasedRow};

/// The releases of one job.
pub(super) struct JobReleases {
    pub(super) identity: JobIdentity,
    pub(super) branch: u64,
    rows: BTreeMap<(u64, u64), [u8; Commitment::BYTES]>,
    /// The marks that the coordinator has received, by branch.
    pub(super) reported: BTreeMap<u64, u64>,
}

impl JobReleases {
    /// Returns the mark of the highest branch seen, and of each branch before it whose own noise was released: a new
    /// branch takes nothing back. Highest branch first.
    pub(super) fn marks(&self) -> Vec<JobMark> {
        let mark = |branch, next_row, commitment| JobMark {
            job: self.identity.job.clone(),
            nonce: self.identity.nonce,
            branch,
            next_row,
            commitment,
        };
        let mut marks = Vec::new();
        let mut below = (self.branch, u64::MAX);
        loop {
            let last = self.rows.range(..=below).next_back();
            if marks.is_empty() && last.is_none_or(|((branch, _), _)| *branch != self.branch) {
                marks.push(mark(self.branch, 0, None));
            }
            let Some(((branch, row), bytes)) = last else { return marks };
            marks.push(mark(*branch, row.saturating_add(1), Commitment::try_from(&bytes[..]).ok()));
            match branch.checked_sub(1) {
                Some(branch) => below = (branch, u64::MAX),
                None => return marks,
            }
        }
    }

    /// Returns the marks that the coordinator has not received.
    pub(super) fn unreported(&self) -> impl Iterator<Item = JobMark> {
        let is_new = |mark: &JobMark| self.reported.get(&mark.branch) != Some(&mark.next_row);
        self.marks().into_iter().filter(is_new)
    }
}

#[derive(Default)]
pub(super) struct State {
    /// The highest epoch seen of each ledger.
    epochs: BTreeMap<Nonce, u64>,
    /// The ledger of the last coordinator seen for the first time.
    pub(super) latest_ledger: Option<Nonce>,
    /// By the numbers that lines call them by.
    pub(super) jobs: Vec<JobReleases>,
    numbers: HashMap<(Nonce, Nonce), usize>,
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

    /// Returns the highest epoch seen of a ledger; 0 for none.
    pub(super) fn epoch(&self, ledger: &Nonce) -> u64 {
        self.epochs.get(ledger).copied().unwrap_or(0)
    }

    /// Returns what was released of a job; `None` where no line names it.
    pub(super) fn of(&self, job: &JobIdentity) -> Option<&JobReleases> {
        self.numbers.get(&(job.ledger, job.nonce)).and_then(|number| self.jobs.get(*number))
    }

    pub(super) fn of_mut(&mut self, ledger: Nonce, nonce: Nonce) -> Option<&mut JobReleases> {
        self.numbers.get(&(ledger, nonce)).and_then(|number| self.jobs.get_mut(*number))
    }

    pub(super) fn check(&self, job: &JobIdentity, branch: u64, rows: &[ReleasedRow]) -> Result<()> {
        self.is_sound()?;
        let Some(releases) = self.of(job) else { return Ok(()) };
        if branch < releases.branch {
            let job = job.job.to_string();
            let current = releases.branch;
            return Err(ServiceError::BranchSuperseded { job, branch, current, from_row: 0 });
        }
        let differs = |row: &&ReleasedRow| {
            let before = releases.rows.get(&(row.branch, row.row));
            before.is_some_and(|before| *before != row.commitment.to_bytes())
        };
        match rows.iter().find(differs) {
            Some(&ReleasedRow { branch, row, .. }) => {
                Err(ServiceError::AlreadyBound { job: job.job.to_string(), branch, row })
            }
            None => Ok(()),
        }
    }

    fn has(&self, job: &JobIdentity, row: &ReleasedRow) -> bool {
        self.of(job).is_some_and(|releases| releases.rows.contains_key(&(row.branch, row.row)))
    }

    /// Returns whether there is nothing to write.
    pub(super) fn knows(&self, job: &JobIdentity, branch: u64, rows: &[ReleasedRow]) -> bool {
        self.check(job, branch, rows).is_ok()
            && self.of(job).is_some_and(|releases| releases.branch == branch)
            && rows.iter().all(|row| self.has(job, row))
    }

    /// Returns whether the job is known to be on this branch, or on the first, which needs no line.
    pub(super) fn knows_branch(&self, job: &JobIdentity, branch: u64) -> bool {
        self.of(job).map_or(branch == 0, |releases| releases.branch == branch)
    }

    /// Returns the lines that note the rows of a job on a branch. `begun`: jobs whose first line is still to be written.
    pub(super) fn lines(
        &self,
        job: &JobIdentity,
        branch: u64,
        rows: &[ReleasedRow],
        begun: usize,
    ) -> Vec<Line> {
        let known = self.numbers.get(&(job.ledger, job.nonce));
        let number = *known.unwrap_or(&(self.jobs.len() + begun)) as u64;
        let highest = self.of(job).map_or(0, |releases| releases.branch);
        let branch_line = (branch > highest).then_some(Line::Branch { job: number, branch });
        let row_line = |row: &ReleasedRow| Line::Row {
            job: number,
            branch: row.branch,
            row: row.row,
            commitment: hex::encode(row.commitment.to_bytes()),
        };
        let new_rows = rows.iter().filter(|row| !self.has(job, row)).map(row_line);
        let lines: Vec<_> = branch_line.into_iter().chain(new_rows).collect();
        if known.is_some() || lines.is_empty() {
            return lines;
        }
        let JobIdentity { ledger, nonce, job } = job.clone();
        [Line::Job { number, ledger, nonce, name: job }].into_iter().chain(lines).collect()
    }

    pub(super) fn apply(&mut self, line: Line) -> Result<(), &'static str> {
        match line {
            Line::Epoch { ledger, epoch } => {
                let highest = self.epochs.entry(ledger).or_default();
                *highest = (*highest).max(epoch);
                self.latest_ledger = Some(ledger);
            }
            Line::Job { number, ledger, nonce, name } => {
                if usize::try_from(number) != Ok(self.jobs.len()) {
                    return Err("the numbers of jobs follow one another from 0");
                }
                if self.numbers.insert((ledger, nonce), self.jobs.len()).is_some() {
                    return Err("a job has one number");
                }
                let identity = JobIdentity { ledger, nonce, job: name };
                let rows = BTreeMap::new();
                self.jobs.push(JobReleases { identity, branch: 0, rows, reported: BTreeMap::new() });
            }
            Line::Branch { job, branch } => {
                let releases = self.numbered(job)?;
                releases.branch = releases.branch.max(branch);
            }
            Line::Row { job, branch, row, commitment } => {
                let mut bytes = [0; Commitment::BYTES];
                hex::decode_to_slice(commitment, &mut bytes).map_err(|_| "a commitment is 66 hex digits")?;
                self.numbered(job)?.rows.insert((branch, row), bytes);
            }
        }
        Ok(())
    }

    fn numbered(&mut self, number: u64) -> Result<&mut JobReleases, &'static str> {
        let found = usize::try_from(number).ok().and_then(|number| self.jobs.get_mut(number));
        found.ok_or("it names a job that no line before it introduces")
    }
}
