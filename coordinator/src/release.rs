//! The one place that signs release tokens: after the rows are durably bound, and never before.

use ledger::{Ledger, LedgerError};
use proto::model::Bind;
use proto::{ReleaseKey, ReleaseToken, Result, ServiceError};

/// So that the answer's tokens fit in one message.
const MAX_ROWS: u64 = 65_536;

pub struct Releaser {
    key: ReleaseKey,
}

/// Rows that may now leave the workers.
pub struct Released {
    /// Rows that no earlier call had bound.
    pub newly: u64,
    /// One for each row.
    pub tokens: Vec<ReleaseToken>,
}

impl Releaser {
    /// A new key with every start: tokens of an earlier coordinator end with it.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self { key: ReleaseKey::new(key) })
    }

    pub fn check(bind: &Bind) -> Result<()> {
        if bind.rows.len() > MAX_ROWS {
            return Err(ServiceError::invalid("rows", bind.rows, format!("at most {MAX_ROWS} rows at once")));
        }
        Ok(())
    }

    /// Blocks until the binding is on disk.
    pub fn release(&self, ledger: &Ledger, bind: &Bind) -> Result<Released, LedgerError> {
        let Bind { job, branch, rows, commitments } = bind;
        let bound = ledger.bind(job, *branch, *rows, commitments)?;
        let rows = rows.as_range().zip(commitments);
        let tokens = rows.map(|(row, commitment)| self.key.sign(job, *branch, row, *commitment));
        Ok(Released { newly: bound.newly, tokens: tokens.collect() })
    }

    /// For workers alone, with their leases. Secret.
    pub fn key_for_workers(&self) -> Vec<u8> {
        self.key.to_bytes()
    }
}
