//! The rows of each branch that released rows depend on. Branches have been checked before.

use std::collections::HashMap;
use std::ops::Range;

use super::{ReleasedBranch, ReleasedRows};

/// Returns how many leading rows of the last branch's lineage some released row depends on, on that branch or on one
/// that left it: a row that was skipped enters all rows after it.
pub fn reached(released: &ReleasedRows) -> u64 {
    let mut most = 0;
    let needed = needed(released);
    along_last(released, |branch, end| {
        let behind = needed.get(&branch.branch).copied().unwrap_or(0);
        most = most.max(behind.min(end));
    });
    most
}

/// Returns the stretches that only abandoned branches have, in the order of the branches.
pub fn abandoned(released: &ReleasedRows) -> Vec<(u64, Range<u64>)> {
    let mut kept = HashMap::new();
    along_last(released, |branch, end| {
        kept.insert(branch.branch, end);
    });
    let needed = needed(released);
    let stretch = |branch: &ReleasedBranch| {
        let left = kept.get(&branch.branch).copied().unwrap_or(0).max(branch.from_row);
        let end = needed.get(&branch.branch).copied().unwrap_or(0);
        (left < end).then_some((branch.branch, left..end))
    };
    released.branches.iter().filter_map(stretch).collect()
}

/// Visits the last branch and its ancestors, each with the end of the rows that the lineage takes from it.
fn along_last(released: &ReleasedRows, mut visit: impl FnMut(&ReleasedBranch, u64)) {
    let by_number: HashMap<u64, &ReleasedBranch> =
        released.branches.iter().map(|branch| (branch.branch, branch)).collect();
    let mut next = released.branches.last();
    let mut end = u64::MAX;
    while let Some(branch) = next {
        visit(branch, end);
        end = end.min(branch.from_row);
        next = branch.parent.and_then(|parent| by_number.get(&parent).copied());
    }
}

/// Returns how many leading rows of each branch's lineage some released row depends on, of that branch or of one that
/// left it.
fn needed(released: &ReleasedRows) -> HashMap<u64, u64> {
    let mut needed = HashMap::new();
    // Parents have smaller numbers, so in reverse order every child comes before its parent.
    for branch in released.branches.iter().rev() {
        let own: &mut u64 = needed.entry(branch.branch).or_default();
        *own = branch.end().max(*own);
        let behind = (*own).min(branch.from_row);
        if let Some(parent) = branch.parent {
            let parents: &mut u64 = needed.entry(parent).or_default();
            *parents = behind.max(*parents);
        }
    }
    needed
}
