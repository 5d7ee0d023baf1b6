//! Approvals: a person's consent to one change of a data set, which another person makes once.
//!
//! The use of an approval is written in the transaction of the change, just before it: neither is there without the other.

use proto::{DataSetId, model::GuardedChange};

use crate::{
    Approval, Ledger, LedgerError, Result,
    chain::{data_set_event::DataSetEvent, data_sets as chains},
    data_set::DataSetRecord,
    error::Fail,
    store::{Outcome, recording::RecordingTransaction},
    tables::{self, DATA_SETS, data_sets_table::existing},
};

impl Ledger {
    /// Records that the person who acts consents to a change for `valid_ms` milliseconds from now, by the clock of this process.
    /// It takes the place of an earlier consent to a change of the same subject.
    ///
    /// # Errors
    /// [`LedgerError::ApprovalRequired`] where it is not known which person acts; [`LedgerError::Invalid`] where the data set has no
    /// rule or too many approvals wait; [`LedgerError::NotFound`].
    pub fn approve(&self, data_set: &DataSetId, change: &GuardedChange, valid_ms: u64) -> Result<()> {
        self.store.write("approve", |transaction| {
            let mut data_sets = transaction.open_table(DATA_SETS)?;
            let mut record = existing(&data_sets, data_set)?;
            let stamp = transaction.stamp();
            let approver = stamp.by.person().cloned().ok_or_else(|| LedgerError::ApprovalRequired {
                data_set: data_set.to_string(),
                change: change.to_string(),
                reason: "this caller's credentials name no person who could consent".to_owned(),
                remedy: "call with a token of role approver (rustle token new --role approver --person NAME --out FILE \
                         --tokens-file FILE)"
                    .to_owned(),
            })?;
            let until_ms = stamp.at_ms.saturating_add(valid_ms);
            self.copies.check()?;
            let approval = Approval { change: change.clone(), approver: approver.clone(), until_ms };
            record.keep_approval(approval, stamp.at_ms)?;
            data_sets.insert(data_set.as_str(), tables::encode(&record)?.as_slice())?;
            let event = DataSetEvent::Approved { change: change.clone(), approver, until_ms };
            chains::append(transaction, data_set, &event)?;
            Ok(Outcome::Commit(()))
        })
    }
}

/// Takes the approval of a change that needs one, writes that it is used, and returns whether it was needed. The caller writes
/// the record, and then the event of the change.
pub fn take(
    transaction: &RecordingTransaction<'_>,
    record: &mut DataSetRecord,
    change: &GuardedChange,
) -> Result<bool, Fail> {
    if !record.needs_approval(change) {
        return Ok(false);
    }
    let stamp = transaction.stamp();
    let operator = stamp.by.person();
    let approver = record
        .take_approval(change, operator, stamp.at_ms)
        .map_err(|reason| reason.refusal(record, change))?;
    if let Some(operator) = operator.cloned() {
        let used = DataSetEvent::ApprovalUsed { change: change.clone(), approver, operator };
        chains::append(transaction, &record.data_set, &used)?;
    }
    Ok(true)
}
