//! The neighbouring relation, shared by batches and accounts.

use serde::{Deserialize, Serialize};

/// A relation between data sets: two that are related must be hard to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbouring {
    /// One record, or all of one user's records, counts as zero in one of them. Both have the same public size.
    #[default]
    ZeroOut,
    /// One of them lacks the record.
    AddRemove,
    /// One record is replaced by another, which moves a sum by up to twice as much.
    Replace,
}

impl Neighbouring {
    /// All relations.
    pub const ALL: [Self; 3] = [Self::ZeroOut, Self::AddRemove, Self::Replace];

    /// Returns the relation's name, as it is written in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroOut => "zero-out",
            Self::AddRemove => "add-remove",
            Self::Replace => "replace",
        }
    }

    /// Returns the factor by which the sensitivity under zeroing out grows where nothing is sampled.
    #[must_use]
    pub fn factor(self) -> f64 {
        match self {
            Self::ZeroOut | Self::AddRemove => 1.0,
            Self::Replace => 2.0,
        }
    }
}
