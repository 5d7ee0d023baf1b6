//! Which two data sets must be hard to tell apart.

use serde::{Deserialize, Serialize};

/// Which two data sets must be hard to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbouring {
    /// One record (or all of one user's) counts as zero in one of them; the size is the same and public.
    #[default]
    ZeroOut,
    /// One of them lacks the record.
    AddRemove,
    /// The record is another one: what it moves a sum by is twice as large.
    Replace,
}

impl Neighbouring {
    /// What the sensitivity under zeroing out is multiplied by where nothing is sampled.
    #[must_use]
    pub fn factor(self) -> f64 {
        match self {
            Self::ZeroOut | Self::AddRemove => 1.0,
            Self::Replace => 2.0,
        }
    }
}
