//! The one place that signs release tokens: after the rows are durably bound, and never before.

use std::{fmt::Display, time::Duration};

use ledger::{Ledger, LedgerError};
use proto::{ReleaseKey, ReleaseToken, Result, ServiceError, Validity, model::Bind};
use tokio::time::Instant;

use crate::{binding, watermarks::Watermark};

/// The most rows that one call may bind, so that the answer's tokens fit in one message.
pub const MAX_ROWS: u64 = 65_536;

/// Binds rows and signs their tokens, for one epoch of a coordinator.
pub struct ReleaseAuthority {
    key: ReleaseKey,
    epoch: u64,
    /// The beginning of the epoch: tokens expire by a clock that never jumps.
    began: Instant,
    token_ttl: Duration,
}

/// Rows that may now leave the workers.
pub struct Released {
    /// The number of rows that no earlier call had bound.
    pub newly: u64,
    /// One token for each row, in order.
    pub tokens: Vec<ReleaseToken>,
}

impl ReleaseAuthority {
    /// Draws a new key: tokens of an earlier coordinator end with its epoch.
    ///
    /// # Errors
    /// The operating system gave no randomness.
    pub fn new(epoch: u64, token_ttl: Duration) -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self { key: ReleaseKey::new(key), epoch, began: Instant::now(), token_ttl })
    }

    /// Checks the size of a request before anything waits for it.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] for more than [`MAX_ROWS`] rows.
    pub fn check(bind: &Bind) -> Result<()> {
        if bind.rows.len() > MAX_ROWS {
            return Err(ServiceError::invalid("rows", bind.rows, format!("at most {MAX_ROWS} rows at once")));
        }
        Ok(())
    }

    /// Binds the rows and signs a token for each. Blocks until the binding is on disk.
    ///
    /// `watermarks` are those of the job that are not known to be in the ledger.
    ///
    /// # Errors
    /// Those of [`binding::bind_above`].
    pub fn release<W: Display>(
        &self,
        ledger: &Ledger,
        bind: &Bind,
        watermarks: &[Watermark<W>],
    ) -> Result<Released, LedgerError> {
        let Bind { job, branch, rows, commitments, extent } = bind;
        let bound = binding::bind_above(ledger, job, *branch, *rows, commitments, watermarks)?;
        let until = self.now_ms().saturating_add(self.token_ttl.as_millis() as u64);
        let validity = Validity { epoch: self.epoch, until_ms: until, extent: *extent };
        let rows = rows.as_range().zip(commitments);
        let tokens = rows.map(|(row, commitment)| self.key.sign(job, *branch, row, *commitment, validity));
        Ok(Released { newly: bound.newly, tokens: tokens.collect() })
    }

    /// Returns the milliseconds since the epoch began.
    pub fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Returns the key that workers verify tokens with. Secret: for workers alone, with their leases.
    pub fn key_for_workers(&self) -> Vec<u8> {
        self.key.to_bytes()
    }
}
