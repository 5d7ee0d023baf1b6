//! The one place that signs release tokens: after the rows are durably bound, never before.

use std::time::Duration;

use ledger::{Ledger, LedgerError};
use proto::model::{Bind, JobMark};
use proto::{ReleaseKey, ReleaseToken, Result, ServiceError, Validity, WorkerId};
use tokio::time::Instant;

/// Rows that one call may bind, so that the answer's tokens fit in one message.
const MAX_ROWS: u64 = 65_536;

/// Binds rows in the ledger and signs the tokens that let them leave the workers.
pub struct ReleaseAuthority {
    key: ReleaseKey,
    epoch: u64,
    /// When the epoch began. Tokens expire by this clock, which never jumps.
    began: Instant,
    token_ttl: Duration,
}

/// The tokens of rows that may now leave the workers.
pub struct IssuedTokens {
    /// The number of rows that no earlier call had bound.
    pub newly: u64,
    /// One for each row.
    pub tokens: Vec<ReleaseToken>,
}

impl ReleaseAuthority {
    /// Creates an authority with a new key, so that tokens of an earlier coordinator are no longer valid.
    pub fn new(epoch: u64, token_ttl: Duration) -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self { key: ReleaseKey::new(key), epoch, began: Instant::now(), token_ttl })
    }

    /// Fails if a request binds too many rows.
    pub fn check(bind: &Bind) -> Result<()> {
        if bind.rows.len() > MAX_ROWS {
            return Err(ServiceError::invalid("rows", bind.rows, format!("at most {MAX_ROWS} rows at once")));
        }
        Ok(())
    }

    /// Binds rows and signs their tokens. Blocks until the binding is on disk. `marks` are the workers' watermarks that
    /// are not known to be bound; this fails if the ledger does not have them.
    pub fn release(
        &self,
        ledger: &Ledger,
        bind: &Bind,
        marks: &[(WorkerId, JobMark)],
    ) -> Result<IssuedTokens, LedgerError> {
        check_not_stale(ledger, marks)?;
        let Bind { job, branch, rows, commitments, extent } = bind;
        let bound = ledger.bind(job, *branch, *rows, commitments)?;
        let until = self.now_ms().saturating_add(self.token_ttl.as_millis() as u64);
        let validity = Validity { epoch: self.epoch, until_ms: until, extent: *extent };
        let rows = rows.as_range().zip(commitments);
        let tokens = rows.map(|(row, commitment)| self.key.sign(job, *branch, row, *commitment, validity));
        Ok(IssuedTokens { newly: bound.newly, tokens: tokens.collect() })
    }

    /// Returns the milliseconds since the epoch began.
    pub fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Returns the key by which workers verify tokens. Secret: only for workers, with their leases.
    pub fn key_for_workers(&self) -> Vec<u8> {
        self.key.to_bytes()
    }
}

/// Fails if a worker has released a row that the ledger does not have: the ledger is stale, such as a restored copy.
/// Skips jobs that the ledger does not know.
pub fn check_not_stale(ledger: &Ledger, marks: &[(WorkerId, JobMark)]) -> Result<(), LedgerError> {
    for (worker, JobMark { job, branch, next_row }) in marks {
        let Some(record) = ledger.job(job)? else { continue };
        // On the watermark's own branch: a rewind takes back nothing that was released before it.
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
