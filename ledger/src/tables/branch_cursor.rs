//! Counts of one branch's bindings.

use proto::JobId;
use redb::ReadableTable;
use sha2::{Digest, Sha256};

use crate::error::Fail;

/// Counts of one branch's bindings, updated with each of them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct BranchCursor {
    /// The number of rows bound.
    pub rows_bound: u64,
    /// One more than the highest row bound.
    pub next_row: u64,
    /// XOR of a digest of each binding: independent of the order, and updated in constant time. It ties the table of
    /// bindings to the chain, which has them in order.
    pub fingerprint: [u8; 32],
}

impl BranchCursor {
    /// Reads a value of the table.
    pub fn from_stored((rows_bound, next_row, fingerprint): (u64, u64, [u8; 32])) -> Self {
        Self { rows_bound, next_row, fingerprint }
    }

    /// Returns the value for the table.
    pub fn to_stored(self) -> (u64, u64, [u8; 32]) {
        (self.rows_bound, self.next_row, self.fingerprint)
    }

    /// Counts one more binding.
    pub fn add(&mut self, job: &str, branch: u64, row: u64, commitment: &[u8]) {
        let digest = Sha256::new()
            .chain_update(b"rustle binding v2")
            .chain_update((job.len() as u64).to_le_bytes())
            .chain_update(job)
            .chain_update(branch.to_le_bytes())
            .chain_update(row.to_le_bytes())
            .chain_update(commitment)
            .finalize();
        self.rows_bound += 1;
        self.next_row = self.next_row.max(row.saturating_add(1));
        self.fingerprint.iter_mut().zip(digest).for_each(|(byte, other)| *byte ^= other);
    }
}

/// Reads the counts of a branch: zeros where nothing is bound.
pub fn cursor_of(
    cursors: &impl ReadableTable<(&'static str, u64), (u64, u64, [u8; 32])>,
    job: &JobId,
    branch: u64,
) -> Result<BranchCursor, Fail> {
    let stored = cursors.get((job.as_str(), branch))?.map(|cursor| cursor.value());
    Ok(stored.map(BranchCursor::from_stored).unwrap_or_default())
}

/// Counts the rows that the job has bound, on all branches.
pub fn rows_bound(
    cursors: &impl ReadableTable<(&'static str, u64), (u64, u64, [u8; 32])>,
    job: &JobId,
) -> Result<u64, Fail> {
    let mut rows = 0;
    for cursor in cursors.range((job.as_str(), 0)..=(job.as_str(), u64::MAX))? {
        rows += cursor?.1.value().0;
    }
    Ok(rows)
}
