//! What is kept of a destroyed job once its bindings and its entries are removed: one entry of its chain, in their place.

use proto::{Nonce, RowRange, hex_digest};
use serde::{Deserialize, Serialize};

use crate::ShardRecord;

/// What the removed entries and bindings of a destroyed job said: the state that a replay of them ends in, what reports
/// state, and roots of the bindings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobArchive {
    /// The job's name: nothing else ties an archive to a chain that has no entry before it.
    pub job: String,
    /// The number of entries before this one, which were removed.
    pub entries: u64,
    /// The hash of the last of them: the chain continues from it.
    #[serde(with = "hex_digest")]
    pub head: [u8; 32],
    /// The first entry, as it was hashed: the job's definition, and who created it when.
    pub first: String,
    /// The number of the last layout.
    pub layout_epoch: u64,
    /// The last shards.
    pub shards: Vec<ShardRecord>,
    /// Where each branch except 0 was opened.
    pub branches: Vec<ArchivedBranch>,
    /// The bindings of each branch that has some.
    pub bound: Vec<ArchivedBindings>,
    /// Checkpoints, and the SHA-256 of each one's record in hex.
    pub checkpoints: Vec<(u64, String)>,
    /// After the job's creation: what its noise became fresh by.
    pub openings: Vec<ArchivedOpening>,
}

impl ArchivedBindings {
    /// Returns whether the ranges are in order and apart, and as many rows as are counted.
    pub fn is_consistent(&self) -> bool {
        let are_ranges = self.released.iter().all(|(start, end)| start < end);
        let are_apart = self.released.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let rows: u128 =
            self.released.iter().map(|(start, end)| u128::from(end.saturating_sub(*start))).sum();
        let end = self.released.last().map_or(0, |(_, end)| *end);
        are_ranges && are_apart && rows == u128::from(self.rows_bound) && end == self.next_row
    }
}

impl JobArchive {
    /// Returns the rows of the branch's own Z that were bound.
    pub fn released(&self, branch: u64) -> Vec<RowRange> {
        let of_branch = self.bound.iter().filter(|bound| bound.branch == branch);
        of_branch.flat_map(|bound| &bound.released).map(|&(start, end)| RowRange { start, end }).collect()
    }
}

/// A branch of an archived job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedBranch {
    /// Its number.
    pub branch: u64,
    /// The branch that it kept the rows before of.
    pub parent: u64,
    /// Its first row.
    pub from_row: u64,
    /// Its nonce.
    pub nonce: Nonce,
}

/// The bindings of one branch of an archived job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedBindings {
    /// The branch whose Z the rows have.
    pub branch: u64,
    /// The number of rows bound.
    pub rows_bound: u64,
    /// One more than the highest row bound.
    pub next_row: u64,
    /// The fingerprint of the bindings, as counts of a branch have it.
    #[serde(with = "hex_digest")]
    pub fingerprint: [u8; 32],
    /// SHA-256 of `rustle bindings v1`, then of each row in order (8 bytes, little endian) with its commitment (33 bytes).
    #[serde(with = "hex_digest")]
    pub root: [u8; 32],
    /// The bound rows: start and end of each range.
    pub released: Vec<(u64, u64)>,
}

/// An event after which an archived job's noise was fresh, with who made it and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedOpening {
    /// The index of its entry.
    pub entry: u64,
    /// Who made the entry.
    pub by: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What began.
    pub began: Opened,
}

/// What an event after which a job's noise is fresh began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Opened {
    /// The job.
    Created,
    /// A branch of the job.
    BranchOpened {
        /// The branch's number.
        branch: u64,
    },
    /// The ledger under a new id.
    Adopted {
        /// The id.
        ledger: Nonce,
    },
}
