//! Worst participation patterns: the sensitivity of a matrix as its value or as a proven upper bound.
//!
//! sens(C)² is the largest Σ_{i,j∈π} X_ij⟨u_i, u_j⟩, X = CᵀC, over allowed sets of rounds π and contributions u
//! of norm at most one. What is called exact is an upper bound that a contribution attains:
//!
//! * `spaced`: Toeplitz, non-negative and not rising from b on, by the pattern (0, b, 2b, …);
//! * `worst` under min-sep for any other: `chain`, exact in Σ|X|, or `search`, branch and bound;
//! * `tree_counts` for trees and sets of rounds.
//!
//! Nothing here knows the mechanisms: [`crate::Strategy`] hands in columns or Gram matrices. Its module `row_range`
//! runs the same search on columns cut to some rows, and `schemas` tries the sets of schemas that name the rounds.

mod chain;
mod eigen;
pub(crate) mod gram;
pub(crate) mod overlaps;
mod schema;
mod search;
mod spaced;
#[cfg(test)]
mod tests;
pub(crate) mod tree_counts;
mod worst;

pub use schema::Schema;

pub use spaced::majorant;
pub(crate) use spaced::{spaced_squared, spaced_sum, toeplitz};
pub(crate) use worst::worst;

use crate::participation::Sensitivity;

/// Bounds this close, relative to the larger, count as one number up to rounding.
pub(crate) const CLOSE: f64 = 1e-12;

/// lower ≤ sens² ≤ upper, the lower one attained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bracket {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Bracket {
    pub(crate) fn exactly(squared: f64) -> Self {
        Self { lower: squared, upper: squared }
    }

    pub(crate) fn is_exact(self) -> bool {
        self.upper - self.lower <= CLOSE * self.upper
    }

    pub(crate) fn sensitivity(self) -> Sensitivity {
        Sensitivity { value: self.upper.sqrt(), exact: self.is_exact() }
    }

    /// The bracket of the worse of two patterns.
    pub(crate) fn worse(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper) }
    }
}
