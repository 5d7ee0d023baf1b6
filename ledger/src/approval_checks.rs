//! Which changes of a data set take an approval, and which approvals they may use.
//!
//! The same rules decide what is written and check what a chain says: each use of an approval is replayed against the
//! approvals before it.

use proto::{
    PersonId,
    model::{GuardedChange, PrivacyBudget},
};

use crate::{Approval, Approvals, LedgerError, data_set::DataSetRecord};

/// The most approvals of a data set that wait to be used.
const MAX_PENDING: usize = 100;

/// The reason why a change is not approved.
#[derive(Clone, Debug, PartialEq)]
pub enum NoApproval {
    /// It is not known which person makes the change.
    UnknownPerson,
    /// No person has approved a change of this subject, or the approval was used.
    NoneWaits,
    /// Another change of this subject is approved.
    OfOtherChange(Approval),
    /// The approval has ended.
    Ended(Approval),
    /// Who makes the change has approved it.
    SamePerson(PersonId),
}

impl DataSetRecord {
    /// Returns whether a second person must approve the change: where ε or δ of the budget or of a share rises, where shares
    /// then let someone spend who could not before, and where a job rewinds more often than is free.
    pub fn needs_approval(&self, change: &GuardedChange) -> bool {
        let Some(Approvals { rule, .. }) = &self.approvals else { return false };
        match change {
            GuardedChange::Budget { budget } => is_raised(&self.budget, budget),
            GuardedChange::Share { tenant, share: Some(share) } => match self.shares.get(tenant) {
                Some(before) => is_raised(before, share),
                // The first share of all takes from the others, who could spend the whole budget.
                None => !self.shares.is_empty(),
            },
            // Without the last share everybody may spend.
            GuardedChange::Share { tenant, share: None } => {
                self.shares.len() == 1 && self.shares.contains_key(tenant)
            }
            GuardedChange::Rewind { expected_branch, .. } => *expected_branch >= u64::from(rule.free_rewinds),
        }
    }

    /// Keeps an approval that was given at `at_ms`, in the place of an earlier one of its subject and of all that have ended.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`] where the data set has no rule, and where too many approvals wait.
    pub fn keep_approval(&mut self, approval: Approval, at_ms: u64) -> Result<(), LedgerError> {
        let Some(approvals) = &mut self.approvals else {
            let allowed = format!("none: data set {} has no rule that demands one", self.data_set);
            return Err(LedgerError::invalid("approval", &approval.change, allowed));
        };
        let stays =
            |other: &Approval| at_ms < other.until_ms && !other.change.is_of_same_subject(&approval.change);
        approvals.pending.retain(stays);
        if approvals.pending.len() >= MAX_PENDING {
            let allowed =
                format!("{MAX_PENDING} that wait in data set {}, until one is used or ends", self.data_set);
            return Err(LedgerError::invalid("approvals", MAX_PENDING + 1, allowed));
        }
        approvals.pending.push(approval);
        Ok(())
    }

    /// Takes the approval of exactly this change, which `operator` makes at `at_ms`, and returns who gave it. It is used once.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn take_approval(
        &mut self,
        change: &GuardedChange,
        operator: Option<&PersonId>,
        at_ms: u64,
    ) -> Result<PersonId, NoApproval> {
        let operator = operator.ok_or(NoApproval::UnknownPerson)?;
        let pending = self.approvals.as_mut().map(|approvals| &mut approvals.pending);
        let pending = pending.ok_or(NoApproval::NoneWaits)?;
        let place = pending.iter().position(|approval| approval.change.is_of_same_subject(change));
        let place = place.ok_or(NoApproval::NoneWaits)?;
        let approval = &pending[place];
        if approval.change != *change {
            return Err(NoApproval::OfOtherChange(approval.clone()));
        }
        if at_ms >= approval.until_ms {
            return Err(NoApproval::Ended(approval.clone()));
        }
        if approval.approver == *operator {
            return Err(NoApproval::SamePerson(operator.clone()));
        }
        Ok(pending.remove(place).approver)
    }
}

fn is_raised(before: &PrivacyBudget, after: &PrivacyBudget) -> bool {
    after.epsilon > before.epsilon || after.delta > before.delta
}

impl NoApproval {
    /// Returns the refusal of the change.
    pub fn refusal(self, record: &DataSetRecord, change: &GuardedChange) -> LedgerError {
        let approving = change.approving_command(&record.data_set);
        let approve = format!("another person, with an approver's token, approves exactly this: {approving}");
        let reason = match &self {
            Self::UnknownPerson => "this caller's credentials name no person".to_owned(),
            Self::NoneWaits => "no person has approved it".to_owned(),
            Self::OfOtherChange(Approval { change, approver, .. }) => {
                format!("what {approver} approved is {change}")
            }
            Self::Ended(Approval { approver, .. }) => format!("the approval of {approver} has ended"),
            Self::SamePerson(person) => format!("{person} has approved it, who makes it"),
        };
        let remedy = match self {
            Self::UnknownPerson => {
                format!(
                    "call with a token that names a person (rustle token new --role ROLE --person NAME --out FILE \
                     --tokens-file FILE), once {approve}"
                )
            }
            _ => approve,
        };
        LedgerError::ApprovalRequired {
            data_set: record.data_set.to_string(),
            change: change.to_string(),
            reason,
            remedy,
        }
    }
}
