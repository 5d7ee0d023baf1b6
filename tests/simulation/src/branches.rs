//! The branches of the jobs, as far as they are known: whose Z each of their rows has, and its bytes by the oracle.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::{JobId, Lineage, ServiceError};

use crate::cases::Case;
use crate::history::History;

#[derive(Debug, Default)]
pub struct Branches(BTreeMap<(JobId, u64), Branch>);

#[derive(Debug)]
struct Branch {
    lineage: Lineage,
    /// The rows from the branch's first own row.
    rows: Vec<Vec<f32>>,
    /// When it was first acknowledged to a caller; `None` if it was only seen in the ledger.
    acknowledged: Option<Duration>,
}

impl Branches {
    /// Records a branch; `acknowledged` is the time of an answer to a caller, if there was one. Returns whether it is
    /// the first such answer. Fails if an earlier answer differs.
    pub fn learn(
        &mut self,
        case: &Case,
        lineage: &Lineage,
        acknowledged: Option<Duration>,
    ) -> Result<bool, String> {
        let job = &case.job;
        let branch = lineage.branch();
        let known = self.0.get_mut(&(job.clone(), branch));
        match known {
            Some(known) if known.lineage == *lineage => {
                let is_new = known.acknowledged.is_none() && acknowledged.is_some();
                known.acknowledged = known.acknowledged.or(acknowledged);
                Ok(is_new)
            }
            Some(Branch { lineage: before, acknowledged: Some(_), .. }) => {
                Err(format!("{job} branch {branch} was {before}, and now is {lineage}"))
            }
            // It was seen in the ledger and lost with a commit that was not acknowledged.
            Some(_) | None => {
                let rows = case.own_rows(lineage);
                self.0.insert((job.clone(), branch), Branch { lineage: lineage.clone(), rows, acknowledged });
                Ok(acknowledged.is_some())
            }
        }
    }

    pub fn lineage(&self, job: &JobId, branch: u64) -> Option<&Lineage> {
        self.0.get(&(job.clone(), branch)).map(|known| &known.lineage)
    }

    /// Returns the acknowledged branches.
    pub fn acknowledged(&self) -> impl Iterator<Item = (&JobId, &Lineage)> {
        self.0
            .iter()
            .filter(|(_, known)| known.acknowledged.is_some())
            .map(|((job, _), known)| (job, &known.lineage))
    }

    /// Returns the newest acknowledged branch of a job.
    pub fn newest(&self, job: &JobId) -> u64 {
        self.acknowledged()
            .filter(|(of, _)| *of == job)
            .map(|(_, lineage)| lineage.branch())
            .max()
            .unwrap_or(0)
    }

    /// Returns when it was first acknowledged that the job has left the branch.
    pub fn left_at(&self, job: &JobId, branch: u64) -> Option<Duration> {
        let later = self.0.iter().filter(|((of, at), _)| of == job && *at > branch);
        later.filter_map(|(_, known)| known.acknowledged).min()
    }

    /// The branch whose Z the row of `branch` has.
    pub fn of_row(&self, job: &JobId, branch: u64, row: u64) -> u64 {
        self.lineage(job, branch).map_or(branch, |lineage| lineage.branch_of(row))
    }

    /// Returns the expected row of a branch.
    pub fn row(&self, job: &JobId, branch: u64, row: u64) -> Option<&[f32]> {
        let of = self.0.get(&(job.clone(), self.of_row(job, branch, row)))?;
        let at = row.checked_sub(of.lineage.from_row())?;
        of.rows.get(at as usize).map(Vec::as_slice)
    }
}

impl History {
    /// Checks that a training job, on `parent` before, continues at `from_row`: on that branch or on a new one of its
    /// own.
    pub fn went_on(&mut self, case: &Case, parent: u64, from_row: u64, lineage: &Lineage) {
        let job = &case.job;
        let branch = lineage.branch();
        let expected = self.branches.lineage(job, parent).map(|lineage| {
            if branch == parent { lineage.clone() } else { lineage.rewound(from_row, branch) }
        });
        if branch < parent || expected.is_some_and(|expected| expected != *lineage) {
            self.violation(format!("{job} rewound to row {from_row} of branch {parent} and is on {lineage}"));
        }
        if self.learn(case, lineage, Some(self.now)) {
            self.tally.rewinds += 1;
            self.event(format!("{job} continues with {lineage}"));
        }
    }

    /// Records the refusal of a rewind from `expected`: the job is on `current`.
    pub fn rewind_refused(&mut self, job: &JobId, from_row: u64, expected: u64, current: u64) {
        let was_opened_so = || {
            let before = self.branches.lineage(job, expected)?.rewound(from_row, current);
            Some(current == expected + 1 && *self.branches.lineage(job, current)? == before)
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
            error if error.retry_safe() => {}
            error => self.violation(format!("{job} has left branch {branch}, which was refused by {error}")),
        }
    }

    /// Returns whether a binding of one of the branch's own rows from there on was acknowledged.
    pub fn has_bound_from(&self, job: &JobId, branch: u64, row: u64) -> bool {
        self.acked.keys().any(|(of, at, bound)| of == job && *at == branch && *bound >= row)
    }
}
