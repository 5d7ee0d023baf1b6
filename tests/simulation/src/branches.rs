//! The branches of the jobs, as far as they are known: whose Z each of their rows has, and its bytes by the oracle.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::{JobId, Lineage, NoiseId, Nonce, ServiceError};

use crate::cases::Case;
use crate::history::History;

#[derive(Debug, Default)]
pub struct Branches {
    known: BTreeMap<(JobId, u64), Branch>,
    /// The branch that each nonce belongs to, those included that were lost with a commit.
    nonces: BTreeMap<Nonce, (JobId, u64)>,
}

#[derive(Debug)]
struct Branch {
    noise_id: NoiseId,
    /// The rows from the branch's first own row.
    rows: Vec<Vec<f32>>,
    /// When it was first acknowledged to a caller; `None` if it was only seen in the ledger.
    acknowledged: Option<Duration>,
}

fn own_nonce(lineage: &Lineage) -> Option<Nonce> {
    lineage.segments().last().map(|segment| segment.nonce)
}

impl Branches {
    /// Records a branch; `acknowledged` is the time of an answer to a caller, if there was one. Returns whether it is
    /// the first such answer. Fails if an earlier answer differs, or another branch has one of its nonces.
    pub fn learn(
        &mut self,
        case: &Case,
        noise_id: &NoiseId,
        acknowledged: Option<Duration>,
    ) -> Result<bool, String> {
        let job = &case.job;
        let branch = noise_id.lineage.branch();
        let known = self.known.get_mut(&(job.clone(), branch));
        match known {
            Some(known) if known.noise_id == *noise_id => {
                let is_new = known.acknowledged.is_none() && acknowledged.is_some();
                known.acknowledged = known.acknowledged.or(acknowledged);
                Ok(is_new)
            }
            Some(Branch { noise_id: before, acknowledged: Some(_), .. }) => {
                Err(format!("{job} branch {branch} was {before}, and now is {noise_id}"))
            }
            // It was seen in the ledger and lost with a commit that was not acknowledged.
            Some(_) | None => {
                self.note_nonces(job, noise_id)?;
                let rows = case.own_rows(noise_id);
                let learnt = Branch { noise_id: noise_id.clone(), rows, acknowledged };
                self.known.insert((job.clone(), branch), learnt);
                Ok(acknowledged.is_some())
            }
        }
    }

    /// Each nonce is of one branch of one job for ever, and the job's own is that of its branch 0.
    fn note_nonces(&mut self, job: &JobId, NoiseId { job_nonce, lineage }: &NoiseId) -> Result<(), String> {
        let of_branches = lineage.segments().iter().map(|segment| (segment.branch, segment.nonce));
        for (branch, nonce) in std::iter::once((0, *job_nonce)).chain(of_branches) {
            if branch == 0 && nonce != *job_nonce {
                return Err(format!("{job} has nonce {job_nonce}, and its branch 0 has {nonce}"));
            }
            let acknowledged =
                self.noise_id(job, branch).filter(|_| self.is_acknowledged(job, branch)).cloned();
            if let Some(before) = acknowledged.filter(|before| own_nonce(&before.lineage) != Some(nonce)) {
                return Err(format!("{job} branch {branch} was {before}, and now has nonce {nonce}"));
            }
            let first = self.nonces.entry(nonce).or_insert_with(|| (job.clone(), branch));
            if first.0 != *job || first.1 != branch {
                return Err(format!(
                    "{job} branch {branch} has the nonce of branch {} of {}",
                    first.1, first.0
                ));
            }
        }
        Ok(())
    }

    /// A binding that was acknowledged shows that its branch is there to stay, also where the answer that opened it was
    /// lost.
    pub fn bound(&mut self, job: &JobId, branch: u64, now: Duration) {
        if let Some(known) = self.known.get_mut(&(job.clone(), branch)) {
            known.acknowledged.get_or_insert(now);
        }
    }

    pub fn noise_id(&self, job: &JobId, branch: u64) -> Option<&NoiseId> {
        self.known.get(&(job.clone(), branch)).map(|known| &known.noise_id)
    }

    fn is_acknowledged(&self, job: &JobId, branch: u64) -> bool {
        self.known.get(&(job.clone(), branch)).is_some_and(|known| known.acknowledged.is_some())
    }

    pub fn lineage(&self, job: &JobId, branch: u64) -> Option<&Lineage> {
        self.noise_id(job, branch).map(|noise_id| &noise_id.lineage)
    }

    /// Returns the acknowledged branches.
    pub fn acknowledged(&self) -> impl Iterator<Item = (&JobId, &NoiseId)> {
        self.known
            .iter()
            .filter(|(_, known)| known.acknowledged.is_some())
            .map(|((job, _), known)| (job, &known.noise_id))
    }

    /// Returns the newest acknowledged branch of a job.
    pub fn newest(&self, job: &JobId) -> u64 {
        self.acknowledged()
            .filter(|(of, _)| *of == job)
            .map(|(_, noise_id)| noise_id.lineage.branch())
            .max()
            .unwrap_or(0)
    }

    /// Returns when it was first acknowledged that the job has left the branch.
    pub fn left_at(&self, job: &JobId, branch: u64) -> Option<Duration> {
        let later = self.known.iter().filter(|((of, at), _)| of == job && *at > branch);
        later.filter_map(|(_, known)| known.acknowledged).min()
    }

    /// The branch whose Z the row of `branch` has.
    pub fn of_row(&self, job: &JobId, branch: u64, row: u64) -> u64 {
        self.lineage(job, branch).map_or(branch, |lineage| lineage.branch_of(row))
    }

    /// Returns the expected row of a branch.
    pub fn row(&self, job: &JobId, branch: u64, row: u64) -> Option<&[f32]> {
        let of = self.known.get(&(job.clone(), self.of_row(job, branch, row)))?;
        let at = row.checked_sub(of.noise_id.lineage.from_row())?;
        of.rows.get(at as usize).map(Vec::as_slice)
    }
}

impl History {
    /// Records the answer to a job's creation: what identifies its noise, on branch 0.
    pub fn created(&mut self, case: &Case, noise_id: &NoiseId) {
        let job = &case.job;
        if *noise_id != NoiseId::of_job(noise_id.job_nonce) {
            self.violation(format!("{job} was created and is on {}", noise_id.lineage));
        }
        self.learn(case, noise_id, Some(self.now));
        self.event(format!("{job} has noise {noise_id}"));
    }

    /// Checks that a training job, on `parent` before, continues at `from_row`: on that branch or on a new one of its
    /// own.
    pub fn went_on(&mut self, case: &Case, parent: u64, from_row: u64, noise_id: &NoiseId) {
        let job = &case.job;
        let lineage = &noise_id.lineage;
        let branch = lineage.branch();
        let expected = self.branches.lineage(job, parent).zip(own_nonce(lineage)).map(|(before, nonce)| {
            if branch == parent { before.clone() } else { before.rewound(from_row, branch, nonce) }
        });
        if branch < parent || expected.is_some_and(|expected| expected != *lineage) {
            self.violation(format!("{job} rewound to row {from_row} of branch {parent} and is on {lineage}"));
        }
        if self.learn(case, noise_id, Some(self.now)) {
            self.tally.rewinds += 1;
            self.event(format!("{job} continues with {noise_id}"));
        }
    }

    /// Records the refusal of a rewind from `expected`: the job is on `current`.
    pub fn rewind_refused(&mut self, job: &JobId, from_row: u64, expected: u64, current: u64) {
        let was_opened_so = || {
            let opened = self.branches.lineage(job, current)?;
            let before = self.branches.lineage(job, expected)?;
            let before = before.rewound(from_row, current, own_nonce(opened)?);
            Some(current == expected + 1 && *opened == before)
        };
        let is_unused = || !self.asked.keys().any(|(of, branch, _)| of == job && *branch == current);
        if current <= expected || (was_opened_so() == Some(true) && is_unused()) {
            let text =
                format!("{job} could not go back to row {from_row} of branch {expected}, being on {current}");
            self.violation(text);
        }
        self.event(format!("{job} is on branch {current} by now"));
    }

    /// The ledger binds nothing on a branch that was left, and says so where it answers at all.
    pub fn left_refused(&mut self, job: &JobId, branch: u64, error: &ServiceError) {
        match error {
            ServiceError::BranchSuperseded { current, .. } if *current > branch => {
                self.tally.refused_by_ledger += 1;
            }
            ServiceError::Store { .. } => {}
            ServiceError::LedgerCopied { .. } if self.may_be_copied => {}
            error if error.retry_safe() => {}
            error => self.violation(format!("{job} has left branch {branch}, which was refused by {error}")),
        }
    }

    /// Returns whether a binding of one of the branch's own rows from there on was acknowledged.
    pub fn has_bound_from(&self, job: &JobId, branch: u64, row: u64) -> bool {
        self.acked.keys().any(|(of, at, bound)| of == job && *at == branch && *bound >= row)
    }
}
