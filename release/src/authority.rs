//! The one place that signs release grants: after the rows are durably bound, and never before. Orders to workers are
//! signed by the same key.

use std::{fmt::Display, time::Duration};

use ledger::{Ledger, LedgerError};
use proto::{
    CoordinatorKey, CoordinatorPublicKey, GrantedBranch, JobId, MAX_ROWS, Nonce, ReleasedRows, Result,
    ServiceError, SnapshotOrder, Validity, WorkerId, model::Bind, pb,
};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::{binding, watermarks::Watermark};

/// The time that an order to a worker is good for: it is sent as soon as it is signed.
const ORDER_TTL: Duration = Duration::from_secs(60);

/// Binds rows and signs their grants, for one epoch of a coordinator.
pub struct ReleaseAuthority {
    key: CoordinatorKey,
    epoch: u64,
    /// The beginning of the epoch: grants expire by a clock that never jumps.
    began: Instant,
    grant_ttl: Duration,
}

/// Rows that may now leave the workers.
pub struct Released {
    /// The number of rows that no earlier call had bound.
    pub newly: u64,
    /// The rows with their grant.
    pub rows: ReleasedRows,
}

impl ReleaseAuthority {
    /// Draws a new key: grants of an earlier coordinator end with its epoch.
    ///
    /// # Errors
    /// The operating system gave no randomness.
    pub fn new(epoch: u64, grant_ttl: Duration) -> Result<Self, getrandom::Error> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret)?;
        Ok(Self { key: CoordinatorKey::new(&secret), epoch, began: Instant::now(), grant_ttl })
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

    /// Binds the rows and signs one grant for all. Blocks until the binding is on disk.
    ///
    /// `nonce` is the job's. `watermarks` are those of the job that are not known to be in the ledger.
    ///
    /// # Errors
    /// Those of [`binding::bind_above`].
    pub fn release<W: Display>(
        &self,
        ledger: &Ledger,
        bind: Bind,
        nonce: &Nonce,
        watermarks: &[Watermark<W>],
    ) -> Result<Released, LedgerError> {
        let Bind { job, branch, rows, commitments, extent } = bind;
        let bound = binding::bind_above(ledger, &job, branch, rows, &commitments, watermarks)?;
        let validity = Validity { epoch: self.epoch, until_ms: self.in_ms(self.grant_ttl), extent };
        let of = GrantedBranch { job: &job, nonce, branch };
        Ok(Released { newly: bound.newly, rows: self.key.release(of, rows, commitments, validity) })
    }

    /// Signs the order to write a shard's state to the store, for one worker and a short time.
    pub fn order_snapshot(
        &self,
        worker: &WorkerId,
        (job, shard, lease_epoch): (&JobId, u32, u64),
        object: &str,
    ) -> pb::SnapshotRequest {
        self.key.order(&SnapshotOrder {
            worker: worker.clone(),
            job: job.clone(),
            shard,
            lease_epoch,
            object: object.to_owned(),
            coordinator_epoch: self.epoch,
            until_ms: self.in_ms(ORDER_TTL),
        })
    }

    /// Returns the milliseconds since the epoch began.
    pub fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn in_ms(&self, time: Duration) -> u64 {
        self.now_ms().saturating_add(time.as_millis() as u64)
    }

    /// Returns the key that workers check grants and orders by.
    pub fn public_key(&self) -> CoordinatorPublicKey {
        self.key.public()
    }
}
