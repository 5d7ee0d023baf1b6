//! Verifies what the coordinator signed: release tokens, by their signature, epoch, time and extent; and orders.

use std::sync::Arc;

use proto::{
    CoordinateRange, CoordinatorPublicKey, GrantedBranch, ReleaseToken, Result, RowRange, ServiceError,
    SignedSnapshot, SnapshotOrder, WorkerId,
};
use tokio::time::Instant;

use crate::known_signatures::KnownSignatures;

/// Verifies tokens and orders by the key, epoch and clock of a heartbeat's response.
#[derive(Clone, Debug)]
pub struct TokenVerifier {
    pub key: CoordinatorPublicKey,
    pub epoch: u64,
    /// The coordinator's clock in milliseconds when it answered.
    pub coordinator_ms: u64,
    /// When the request was sent. The answer is later, so that the time reckoned from here is never behind: a token may seem to
    /// end early by the time that the answer took, and never late.
    pub requested_at: Instant,
    /// The grants that were found good, under any key: rows of one Bind that are fetched one by one cost one check.
    pub known: Arc<KnownSignatures>,
}

impl TokenVerifier {
    /// Returns the coordinator's clock now, advanced by this process's monotonic clock: no wall clock is involved.
    fn now_ms(&self) -> u64 {
        let since = u64::try_from(self.requested_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.coordinator_ms.saturating_add(since)
    }

    fn check_epoch(&self, presented: u64) -> Result<()> {
        let current = self.epoch;
        if presented < current {
            return Err(ServiceError::StaleEpoch { presented, current });
        }
        Ok(())
    }

    /// Checks that the token is valid for these coordinates of the rows.
    pub fn check(
        &self,
        of: GrantedBranch<'_>,
        rows: RowRange,
        range: CoordinateRange,
        token: &ReleaseToken,
    ) -> Result<()> {
        let validity = token.grant.validity;
        self.check_epoch(validity.epoch)?;
        let text = token.signed_text(of, rows)?;
        if !self.known.are_good(&self.key, &text, token.grant.signature()) {
            let row = rows.start;
            return Err(ServiceError::NotBound { job: of.job.to_string(), branch: of.branch, row });
        }
        if self.now_ms() >= validity.until_ms {
            return Err(ServiceError::TokenExpired { job: of.job.to_string(), row: rows.start });
        }
        if let Some(extent) = validity.extent
            && !extent.contains(&range)
        {
            return Err(ServiceError::RangeNotAllowed { asked: range, allowed: vec![extent] });
        }
        Ok(())
    }

    /// Returns the order, if the coordinator gave it, to this worker, and lately. Whether it was obeyed before, the
    /// caller knows. The second value is how long the order is good for still, in milliseconds.
    pub fn check_order(&self, worker: &WorkerId, signed: &SignedSnapshot) -> Result<(SnapshotOrder, u64)> {
        let order = signed.verify(&self.key)?;
        self.check_epoch(order.coordinator_epoch)?;
        if order.worker != *worker || order.coordinator_epoch != self.epoch {
            return Err(ServiceError::PermissionDenied);
        }
        let left = order.until_ms.saturating_sub(self.now_ms());
        if left == 0 {
            let until = format!("{} ms, which is over", order.until_ms);
            return Err(ServiceError::invalid(
                "order.until_ms",
                until,
                "a time to come: give the order anew",
            ));
        }
        Ok((order, left))
    }
}

#[cfg(test)]
mod tests;
