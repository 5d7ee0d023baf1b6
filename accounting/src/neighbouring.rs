//! Neighbouring data sets, and the order in which a pair is compared.

pub use batches::{AccountKind, Neighbouring};

/// The order in which two neighbours are compared; an account is the worse of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The data set with the record against the one without.
    Remove,
    /// The one without against the one with.
    Add,
}

impl Direction {
    /// Both directions; every account is the worse of the two.
    pub const BOTH: [Self; 2] = [Self::Remove, Self::Add];
}
