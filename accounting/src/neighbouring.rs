//! Which data sets are neighbours, and in which order a pair is told apart.

pub use batches::Neighbouring;

/// The two orders in which neighbours are compared; an account is the worse of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The data set with the record against the one without.
    Remove,
    /// The one without against the one with.
    Add,
}

impl Direction {
    pub const BOTH: [Self; 2] = [Self::Remove, Self::Add];
}
