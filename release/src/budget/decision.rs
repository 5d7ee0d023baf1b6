//! Decisions that are made on one state of a data set, and again where it has changed since.

use ledger::LedgerError;

/// The number of times that a decision is made again because others changed the data set meanwhile. Each time, one of them
/// was admitted.
pub const ATTEMPTS: usize = 10;

/// Makes a decision and applies it, again while the data set changes in between.
pub fn decide<T>(mut attempt: impl FnMut() -> Result<T, LedgerError>) -> Result<T, LedgerError> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(LedgerError::DataSetChanged { .. }) => {}
            outcome => return outcome,
        }
    }
    attempt()
}
