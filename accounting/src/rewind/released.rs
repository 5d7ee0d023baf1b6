//! The rows that a job has released, branch by branch, as the coordinator's report lists them.

use serde::{Deserialize, Serialize};

use crate::error::{AccountingError, Result};

/// The released rows of all branches of a job. The last branch is the one that continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedRows {
    /// The branches, in the order of their numbers.
    pub branches: Vec<ReleasedBranch>,
}

/// The released rows of one branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedBranch {
    /// The number of the branch.
    pub branch: u64,
    /// The branch that this one left; the first has none.
    #[serde(default)]
    pub parent: Option<u64>,
    /// The first row that is its own; rows before it are its parent's.
    pub from_row: u64,
    /// The stretches of its own rows that may have been released, as \[start, end), ascending.
    pub released: Vec<(u64, u64)>,
}

impl ReleasedRows {
    /// Describes a job that never went back and has released rows 0..`rows`.
    #[must_use]
    pub fn straight(rows: u64) -> Self {
        let released = if rows == 0 { Vec::new() } else { vec![(0, rows)] };
        Self { branches: vec![ReleasedBranch { branch: 0, parent: None, from_row: 0, released }] }
    }

    /// Returns the number of released rows, those of abandoned branches included.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.branches.iter().flat_map(|branch| &branch.released).map(|(start, end)| end - start).sum()
    }

    /// Checks that a job of `n` rows can have released this.
    ///
    /// # Errors
    /// [`AccountingError::InvalidRelease`] naming the branch and the fault.
    pub fn check(&self, n: u64) -> Result<()> {
        let Some(first) = self.branches.first() else {
            return Err(AccountingError::InvalidRelease {
                why: "no branch; allowed: at least one".to_owned(),
            });
        };
        if let (Some(parent), branch) = (first.parent, first.branch) {
            return Err(refused(branch, format!("parent {parent}; allowed: none, as it is the first")));
        }
        if first.from_row != 0 {
            let why = format!("from_row {}; allowed: 0, as it is the first", first.from_row);
            return Err(refused(first.branch, why));
        }
        for (index, branch) in self.branches.iter().enumerate() {
            branch.check(n, &self.branches[..index])?;
        }
        Ok(())
    }
}

impl ReleasedBranch {
    fn check(&self, n: u64, earlier: &[Self]) -> Result<()> {
        if let Some(before) = earlier.last() {
            if before.branch >= self.branch {
                let why = format!("it comes after branch {}; allowed: rising numbers", before.branch);
                return Err(refused(self.branch, why));
            }
            if !earlier.iter().any(|known| Some(known.branch) == self.parent) {
                let parent = self.parent.map_or_else(|| "none".to_owned(), |parent| parent.to_string());
                let known: Vec<String> = earlier.iter().map(|known| known.branch.to_string()).collect();
                let why = format!("parent {parent}; allowed: a branch before it ({})", known.join(", "));
                return Err(refused(self.branch, why));
            }
        }
        if self.from_row > n {
            let why = format!("from_row {}; allowed: at most {n}, the job's rows", self.from_row);
            return Err(refused(self.branch, why));
        }
        let mut free = self.from_row;
        for &(start, end) in &self.released {
            if start >= end || start < free || end > n {
                let why = format!("released rows {start}..{end}; allowed: within {free}..{n}, not empty");
                return Err(refused(self.branch, why));
            }
            free = end;
        }
        Ok(())
    }

    /// Returns one more than the last released row; 0 without any.
    pub(super) fn end(&self) -> u64 {
        self.released.last().map_or(0, |rows| rows.1)
    }
}

fn refused(branch: u64, why: String) -> AccountingError {
    AccountingError::InvalidRelease { why: format!("branch {branch}: {why}") }
}
