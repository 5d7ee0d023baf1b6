//! Approvals as they are given and shown.

use ledger::{Approval, Approvals, DataSetEvent, DataSetState, Ledger, LedgerError, Stamp};
use proto::model::{ApproveChange, GuardedChange};
use proto::{DataSetId, pb};
use report::ApprovalLine;

use super::events::invalid;

/// Records that the person who acts on the ledger consents to a change, and returns the data set that it is of.
///
/// # Errors
/// Those of [`Ledger::approve`]; [`LedgerError::Invalid`] for a rewind of a job that is charged in no data set.
pub fn approve(ledger: &Ledger, request: &ApproveChange) -> Result<DataSetId, LedgerError> {
    let ApproveChange { data_set, change, valid_ms } = request;
    let data_set = match (data_set, change) {
        (None, GuardedChange::Rewind { job, .. }) => ledger.charge(job)?.map(|charge| charge.data_set),
        (data_set, _) => data_set.clone(),
    };
    let data_set = data_set.ok_or_else(|| {
        invalid("change", change, "a change of a data set, or of a job that is charged in one")
    })?;
    ledger.approve(&data_set, change, *valid_ms)?;
    Ok(data_set)
}

/// Returns the approvals of a data set that wait.
pub fn pending_of(state: &DataSetState) -> Vec<pb::PendingApproval> {
    let pending = |approval: &Approval| pb::PendingApproval {
        change: approval.change.to_string(),
        approver: approval.approver.to_string(),
        until_ms: approval.until_ms,
    };
    let pending_in = |approvals: &Approvals| approvals.pending.iter().map(pending).collect();
    state.record.approvals.as_ref().map(pending_in).unwrap_or_default()
}

/// Returns the changes of a data set that two persons made, from the events of its chain: who approved, who acted, and when.
///
/// # Errors
/// [`LedgerError::Invalid`] for an entry without a stamp.
pub fn approvals_used<'a>(
    events: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<ApprovalLine>, LedgerError> {
    let mut lines = Vec::new();
    for event in events {
        let (Stamp { at_ms, by }, event) = Stamp::split(event)?;
        // Events of other kinds, those of later releases too, are no approvals.
        if let Ok(DataSetEvent::ApprovalUsed { change, approver, operator }) = serde_json::from_str(&event) {
            lines.push(ApprovalLine {
                at_ms,
                change: change.to_string(),
                approver: approver.to_string(),
                operator: operator.to_string(),
                by: by.to_string(),
            });
        }
    }
    Ok(lines)
}
