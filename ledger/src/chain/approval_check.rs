//! The check of what chains of data sets say of approvals against the branches of jobs.

use redb::ReadTransaction;

use crate::{
    error::Fail,
    rules::adoptions::is_of_adoption,
    tables::{BRANCHES, ENTRIES, branches_table::OpenedFrom},
};

use super::approval_replay::{ReplayedApprovals, ReplayedBranch};

/// Checks that each approval that was used has its change, and each guarded branch was opened as the chain says.
pub fn check(transaction: &ReadTransaction, replayed: &ReplayedApprovals) -> Result<(), Fail> {
    if !replayed.is_whole() {
        return Err(Fail::Record("an approval is used for nothing".to_owned()));
    }
    replayed.branches.iter().try_for_each(|branch| check_branch(transaction, branch))
}

/// Checks that a branch was opened as it was approved, or in an adoption where the chain says so.
fn check_branch(transaction: &ReadTransaction, replayed: &ReplayedBranch) -> Result<(), Fail> {
    let ReplayedBranch { job, branch, approved } = replayed;
    let of_branch = |what: &str| Fail::Record(format!("branch {branch} of job {job} was {what}"));
    let opened = transaction.open_table(BRANCHES)?.get((job.as_str(), *branch))?;
    let opened = opened.map(|found| OpenedFrom::from_stored(found.value()));
    let opened = opened.ok_or_else(|| of_branch("never opened"))?;
    match approved {
        Some(approved) if *approved == (opened.parent, opened.from_row) => Ok(()),
        Some(_) => Err(of_branch("opened elsewhere than was approved")),
        None if is_of_adoption(&transaction.open_table(ENTRIES)?, job, &opened)? => Ok(()),
        None => Err(of_branch("opened in no adoption")),
    }
}
