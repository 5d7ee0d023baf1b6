//! What estimates say of δ and ε.

use super::estimate::Estimate;
use crate::neighbouring::Direction;

/// δ at one ε, in both orders.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delta {
    /// In the order [`Direction::Remove`].
    pub remove: Estimate,
    /// In the order [`Direction::Add`].
    pub add: Estimate,
}

impl Delta {
    pub(super) fn of(&self, direction: Direction) -> Estimate {
        match direction {
            Direction::Remove => self.remove,
            Direction::Add => self.add,
        }
    }

    /// The larger one.
    #[must_use]
    pub fn worse(&self) -> Estimate {
        if self.add.delta > self.remove.delta { self.add } else { self.remove }
    }

    /// An upper bound of both that holds but with probability `failure`, where only one of them need be above it:
    /// see [`Verdict`].
    #[must_use]
    pub fn upper(&self, failure: f64) -> f64 {
        self.remove.upper(failure).max(self.add.upper(failure))
    }
}

/// ε at a δ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epsilon {
    /// In nats; an estimate, and no bound.
    pub epsilon: f64,
    /// δ at this ε, from samples that weren't used to find it.
    pub delta: Delta,
}
