//! The approvals of a data set, replayed: a change that needs one follows its use at once, and nothing else does.

use proto::{JobId, PersonId, model::GuardedChange};

use crate::data_set::DataSetRecord;

use super::data_set_event::DataSetEvent;

/// A branch that a job opened, as the chain of its data set says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedBranch {
    /// The job.
    pub job: JobId,
    /// The branch's number.
    pub branch: u64,
    /// The branch it was opened from and its first row, where it was approved; `None` where it was opened in an adoption.
    pub approved: Option<(u64, u64)>,
}

/// What a chain has said of approvals so far.
#[derive(Debug, Default)]
pub struct ReplayedApprovals {
    /// The change whose approval the last event used.
    used: Option<GuardedChange>,
    /// Branches whose approval, or whose adoption, is compared with the chains of jobs.
    pub branches: Vec<ReplayedBranch>,
}

impl ReplayedApprovals {
    /// Checks that the next event is one that the approval just used was of, and that it has one if it needs it.
    pub fn check(&mut self, record: &DataSetRecord, event: &DataSetEvent) -> Result<(), &'static str> {
        let used = self.used.take();
        let change = match event {
            DataSetEvent::BudgetGranted { budget } => GuardedChange::Budget { budget: *budget },
            DataSetEvent::ShareSet { tenant, share } => {
                GuardedChange::Share { tenant: tenant.clone(), share: *share }
            }
            DataSetEvent::Recharged { job, branch, adopted, .. } => {
                return self.check_branch(record, used, job, *branch, *adopted);
            }
            _ if used.is_some() => return Err("an approval that is used for nothing"),
            _ => return Ok(()),
        };
        match (record.needs_approval(&change), used) {
            (false, None) => Ok(()),
            (true, Some(used)) if used == change => Ok(()),
            (true, _) => Err("a change that another person must approve, and no person did"),
            (false, Some(_)) => Err("an approval that is used for nothing"),
        }
    }

    fn check_branch(
        &mut self,
        record: &DataSetRecord,
        used: Option<GuardedChange>,
        job: &JobId,
        branch: u64,
        adopted: bool,
    ) -> Result<(), &'static str> {
        let free = record.approvals.as_ref().map(|approvals| u64::from(approvals.rule.free_rewinds));
        let is_guarded = !adopted && free.is_some_and(|free| branch > free);
        let approved = match used {
            Some(GuardedChange::Rewind { job: of, from_row, expected_branch, parent })
                if of == *job && expected_branch.checked_add(1) == Some(branch) =>
            {
                Some((parent, from_row))
            }
            None => None,
            Some(_) => return Err("a branch beside the one that was approved"),
        };
        if is_guarded != approved.is_some() {
            return Err("a rewind that another person must approve, and no person did");
        }
        if approved.is_some() || (adopted && free.is_some()) {
            self.branches.push(ReplayedBranch { job: job.clone(), branch, approved });
        }
        Ok(())
    }

    /// Takes the approval that an event says was used, which must have waited for exactly this.
    pub fn use_one(
        &mut self,
        record: &mut DataSetRecord,
        change: GuardedChange,
        approver: &PersonId,
        operator: &PersonId,
        at_ms: u64,
    ) -> Result<(), &'static str> {
        match record.take_approval(&change, Some(operator), at_ms) {
            Ok(by) if by == *approver => {
                self.used = Some(change);
                Ok(())
            }
            Ok(_) => Err("an approval of another person than the one who gave it"),
            Err(_) => {
                Err("an approval that no person gave, that had ended, or of the person who made the change")
            }
        }
    }

    /// Returns whether the last approval that was used is followed by its change.
    pub fn is_whole(&self) -> bool {
        self.used.is_none()
    }
}
