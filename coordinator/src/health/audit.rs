//! The problem of an audit log that lacks entries.

use super::problem::{Problem, Severity};
use crate::audit_log::AuditFault;

/// Returns the problem.
pub fn problem_of_audit_log(fault: AuditFault) -> Problem {
    let AuditFault { target, reason, missing } = fault;
    let lacks = match missing {
        0 => "its entries wait in memory".to_owned(),
        missing => format!("{missing} entries are missing in it for good"),
    };
    let what = match reason {
        Some(reason) => format!("the audit log {target} can't be written: {reason}; {lacks}"),
        None => format!("the audit log {target} has gaps: {lacks}"),
    };
    let next_step = "make room, mend the path of --audit-log, or start the collector of --audit-otlp; the ledger has every entry: rustle ledger export";
    Problem::new(Severity::Warning, "audit_log", what, next_step)
}
