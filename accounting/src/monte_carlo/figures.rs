//! Estimates of δ and ε in both orders of the neighbours.

use super::estimate::Estimate;
use crate::neighbouring::Direction;

/// Estimates of δ at one ε, in both orders of the neighbours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delta {
    /// The estimate in the order [`Direction::Remove`].
    pub remove: Estimate,
    /// The estimate in the order [`Direction::Add`].
    pub add: Estimate,
}

impl Delta {
    /// Returns the estimate in one order.
    pub(super) fn of(&self, direction: Direction) -> Estimate {
        match direction {
            Direction::Remove => self.remove,
            Direction::Add => self.add,
        }
    }

    /// Returns the larger of the two estimates.
    #[must_use]
    pub fn worse(&self) -> Estimate {
        if self.add.delta > self.remove.delta { self.add } else { self.remove }
    }

    /// Returns an upper bound of both δ. If either true δ is above a value, the bound is below that value with probability
    /// at most `failure`; see [`Verdict`](super::Verdict).
    #[must_use]
    pub fn upper(&self, failure: f64) -> f64 {
        self.remove.upper(failure).max(self.add.upper(failure))
    }
}

/// An estimate of ε at a δ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epsilon {
    /// ε in nats: an estimate, and no bound.
    pub epsilon: f64,
    /// The estimates of δ at this ε, from samples that were not used to find it.
    pub delta: Delta,
}
