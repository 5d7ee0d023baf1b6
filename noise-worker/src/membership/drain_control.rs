//! When a worker that shuts down stops serving.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::leases::Leases;

/// The settings of a worker's shutdown.
#[derive(Debug)]
pub struct DrainControl {
    /// Cancelled when the worker is to shut down.
    pub shutdown: CancellationToken,
    /// The time that other workers may take to take over its shards.
    pub deadline: Duration,
    /// Cancelled when nothing more may be served.
    pub refusing: CancellationToken,
}

impl DrainControl {
    /// Returns after shutdown: at once where there is nothing to hand over, else at the deadline.
    pub(super) async fn deadline_passed(&self, leases: &Leases) {
        self.shutdown.cancelled().await;
        if !leases.is_empty() {
            tokio::time::sleep(self.deadline).await;
            tracing::warn!(deadline = ?self.deadline, "leaving with shards that no other worker has taken over in time");
        }
    }
}
