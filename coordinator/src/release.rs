//! The one place that signs release tokens: after the rows are durably bound, and never before.

use std::time::Duration;

use ledger::{Ledger, LedgerError};
use proto::model::{Bind, JobMark};
use proto::{ReleaseKey, ReleaseToken, Result, ServiceError, Validity, WorkerId};
use tokio::time::Instant;

/// So that the answer's tokens fit in one message.
const MAX_ROWS: u64 = 65_536;

pub struct ReleaseAuthority {
    key: ReleaseKey,
    epoch: u64,
    /// When the epoch began: tokens expire by a clock that never jumps.
    began: Instant,
    token_ttl: Duration,
}

/// Rows that may now leave the workers.
pub struct Released {
    /// Rows that no earlier call had bound.
    pub newly: u64,
    /// One for each row.
    pub tokens: Vec<ReleaseToken>,
}

impl ReleaseAuthority {
    /// A new key with every start: tokens of an earlier coordinator end with it.
    pub fn new(epoch: u64, token_ttl: Duration) -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self { key: ReleaseKey::new(key), epoch, began: Instant::now(), token_ttl })
    }

    pub fn check(bind: &Bind) -> Result<()> {
        if bind.rows.len() > MAX_ROWS {
            return Err(ServiceError::invalid("rows", bind.rows, format!("at most {MAX_ROWS} rows at once")));
        }
        Ok(())
    }

    /// Blocks until the binding is on disk. `marks`: what workers have seen of the job that is not known to be bound.
    pub fn release(
        &self,
        ledger: &Ledger,
        bind: &Bind,
        marks: &[(WorkerId, JobMark)],
    ) -> Result<Released, LedgerError> {
        check_not_stale(ledger, marks)?;
        let Bind { job, branch, rows, commitments, extent } = bind;
        let bound = ledger.bind(job, *branch, *rows, commitments)?;
        let until = self.now_ms().saturating_add(self.token_ttl.as_millis() as u64);
        let validity = Validity { epoch: self.epoch, until_ms: until, extent: *extent };
        let rows = rows.as_range().zip(commitments);
        let tokens = rows.map(|(row, commitment)| self.key.sign(job, *branch, row, *commitment, validity));
        Ok(Released { newly: bound.newly, tokens: tokens.collect() })
    }

    /// Milliseconds since the epoch began.
    pub fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// For workers alone, with their leases. Secret.
    pub fn key_for_workers(&self) -> Vec<u8> {
        self.key.to_bytes()
    }
}

/// Error: a worker has released what the ledger does not have.
pub fn check_not_stale(ledger: &Ledger, marks: &[(WorkerId, JobMark)]) -> Result<(), LedgerError> {
    for (worker, JobMark { job, branch, next_row }) in marks {
        let Some(record) = ledger.job(job)? else { continue };
        // Of the mark's own branch: a rewind takes back nothing that was released before it.
        let known = ledger.binding_summary(job, record.branch.min(*branch))?.next_row;
        if *branch <= record.branch && *next_row <= known {
            continue;
        }
        return Err(LedgerError::Behind {
            job: job.to_string(),
            known: format!("branch {} up to row {known}", record.branch.min(*branch)),
            witness: format!("worker {worker}"),
            seen: format!("branch {branch} up to row {next_row}"),
        });
    }
    Ok(())
}
