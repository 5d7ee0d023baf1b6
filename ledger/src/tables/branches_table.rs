//! The table of branches: where each one was opened, and its nonce.

use proto::Nonce;

/// Where a branch was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedFrom {
    /// The branch that it keeps the rows before of.
    pub parent: u64,
    /// Its first row.
    pub from_row: u64,
    /// Its nonce.
    pub nonce: Nonce,
}

impl OpenedFrom {
    /// Reads a value of the table.
    pub fn from_stored((parent, from_row, nonce): (u64, u64, [u8; 32])) -> Self {
        Self { parent, from_row, nonce: Nonce::from_bytes(nonce) }
    }

    /// Returns the table's value.
    pub fn to_stored(self) -> (u64, u64, [u8; 32]) {
        (self.parent, self.from_row, *self.nonce.as_bytes())
    }
}
