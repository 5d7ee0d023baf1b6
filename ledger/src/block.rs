//! The ledger's records of blocks: days of a data set that grows, each with a budget of its own.

use std::collections::BTreeMap;

use proto::{BlockId, Day, model::PrivacyBudget};
use serde::{Deserialize, Serialize};

/// A block of a data set. It never changes, and is never removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRecord {
    /// The first day of its records.
    pub from: Day,
    /// The first day after them.
    pub until: Day,
    /// The most that all charges of jobs that read it may cost.
    pub budget: PrivacyBudget,
}

impl BlockRecord {
    /// Returns whether a day is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}

/// The blocks of a data set, in order of their names.
pub type Blocks = BTreeMap<BlockId, BlockRecord>;
