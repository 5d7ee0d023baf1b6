//! The cost of a job's rewinds: rows that a branch had released before the job left it.
//!
//! A job that rewinds to row t₀ opens a branch: its rows ≥ t₀ come from fresh Z, rows < t₀ keep theirs. Let a
//! node be a (branch, row) with its own z, and the lineage of a branch its nodes together with those of its
//! ancestors below where it left them. With y_t = (C x_B)_t + σζ·z_t along the lineage of B, a released row of B
//! is a combination of y_0…y_t, so everything released is a function of the y of all nodes up to each released
//! one, which have independent noise. They are the lineage of the last branch, at most all n rows of it, and for
//! every abandoned branch B the nodes R_B that lie on no other kept lineage: a stretch of rows, from where B was
//! left (or began, if nothing of it was kept) to the last that B released or that a branch of B still stands on.
//! Hence, where x_B obeys the participation rule along every lineage,
//!
//! sens² ≤ sens(C)² + Σ_B sens(C\[R_B, :\])².
//!
//! (For a tree, y are its nodes: a fresh row draws those that end in it.) R_B is a stretch without gaps: a row that was
//! skipped still enters the rows after it by its z, and charging its released rows alone would be too little where C has
//! negative entries.
//!
//! **Adaptive jobs.** Ordered by time, the stacked matrix of all nodes is lower triangular: a node's mean depends
//! on contributions before it alone. Gradients may therefore depend on everything released so far, as in one
//! run. When to go back may depend on it too, as long as a bound on the total was fixed beforehand (a filter); a
//! total that is only summed up afterwards is then no guarantee made in advance.
//!
//! **Sampling.** A branch may repeat the batches of the one that it leaves, so amplified accounts and this one
//! don't add up; a [`Charge`] treats the job as Gaussian mechanisms, whatever the batches.

mod lineage;
mod released;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use strategy::{Participation, Sensitivity, Strategy};

use crate::error::{AccountingError, Result};

pub use released::{ReleasedBranch, ReleasedRows};

/// A stretch of rows that only abandoned branches have, with its sensitivity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbandonedRows {
    /// The branch that the rows belong to.
    pub branch: u64,
    /// The rows \[start, end) that are charged for.
    pub rows: (u64, u64),
    /// sens(C\[rows, :\]) per unit clip norm.
    pub sensitivity: f64,
    /// False where the sensitivity is an upper bound.
    pub exact: bool,
}

/// The cost of a job's releases, as sensitivities per unit clip norm.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// sens(C) over all n rows: the cost of one run, however early it ends.
    pub planned: Sensitivity,
    /// The number of leading rows of the last branch's lineage that are released, or that a released row of any branch
    /// depends on.
    pub reached: u64,
    /// The sensitivity of these rows alone; 0 where there are none.
    pub leading: Sensitivity,
    /// The abandoned stretches, in the order of their branches.
    pub abandoned: Vec<AbandonedRows>,
}

impl Charge {
    /// Returns the sensitivity of a job that may still release all its rows.
    #[must_use]
    pub fn total(&self) -> Sensitivity {
        self.with_abandoned(self.planned)
    }

    /// Returns the sensitivity of a job that releases no further row.
    #[must_use]
    pub fn so_far(&self) -> Sensitivity {
        self.with_abandoned(self.leading)
    }

    /// Adds the abandoned rows to a sensitivity. One contribution need not attain all of these sensitivities together, so
    /// the sum is an upper bound.
    fn with_abandoned(&self, kept: Sensitivity) -> Sensitivity {
        let extra: f64 = self.abandoned.iter().map(|rows| rows.sensitivity * rows.sensitivity).sum();
        let exact = kept.exact && self.abandoned.is_empty();
        Sensitivity { value: (kept.value * kept.value + extra).sqrt(), exact }
    }
}

/// Computes the charge of a run of `n` rows of `strategy`, under the participation `rule` that every lineage obeys.
///
/// # Errors
/// [`AccountingError::InvalidRelease`] for branches and rows that no job can have, and the errors of the strategy.
pub fn charge(strategy: &Strategy, n: u64, rule: Participation, released: &ReleasedRows) -> Result<Charge> {
    charge_with(n, released, |rows| {
        strategy.sensitivity_of_rows(n, rows, rule).map_err(AccountingError::from)
    })
}

/// Computes the charge of a run with the caller's sensitivity of a stretch of rows, such as that of a plan as it runs.
///
/// # Errors
/// Those of [`charge`], and those of `sensitivity`.
pub fn charge_with<E: From<AccountingError>>(
    n: u64,
    released: &ReleasedRows,
    sensitivity: impl Fn(Range<u64>) -> Result<Sensitivity, E>,
) -> Result<Charge, E> {
    released.check(n)?;
    let planned = sensitivity(0..n)?;
    // Some rows of C cost no more than all of them, whatever a bound says.
    let part = |rows: Range<u64>| -> Result<Sensitivity, E> {
        let found = sensitivity(rows)?;
        let bound = Sensitivity { value: planned.value, exact: false };
        Ok(if found.value <= planned.value { found } else { bound })
    };
    let reached = lineage::reached(released);
    let leading = match reached {
        0 => Sensitivity { value: 0.0, exact: true },
        all if all == n => planned,
        some => part(0..some)?,
    };
    let stretches = lineage::abandoned(released).into_iter().map(|(branch, rows)| {
        let Sensitivity { value, exact } = part(rows.clone())?;
        Ok(AbandonedRows { branch, rows: (rows.start, rows.end), sensitivity: value, exact })
    });
    Ok(Charge { planned, reached, leading, abandoned: stretches.collect::<Result<_, E>>()? })
}
