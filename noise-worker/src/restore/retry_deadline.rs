//! The deadline for a checkpoint store that is out of reach.

use std::time::Duration;

use node::net::backoff::Backoff;
use proto::ServiceError;
use tokio::time::Instant;

/// The maximum wait of a restore, for all its checkpoints together, even where a replay would take longer. Then the key is
/// used, which is always there: a wrong store URL must not block a job forever.
pub const MAX_WAIT: Duration = Duration::from_secs(300);

/// The time that a restore waits for its store.
pub struct RetryDeadline {
    /// The first time that the store was out of reach.
    since: Option<Instant>,
    limit: Duration,
    backoff: Backoff,
}

impl RetryDeadline {
    /// `replay`: how long a restore without the store would take, if that is known. Waiting for as long as that, and then
    /// replaying, costs at most twice the better of the two.
    pub fn new(replay: Option<Duration>) -> Self {
        let limit = replay.map_or(MAX_WAIT, |replay| replay.min(MAX_WAIT));
        Self { since: None, limit, backoff: Backoff::for_stores() }
    }

    /// Waits before another attempt. Returns false once the deadline has passed.
    pub async fn wait(&mut self, error: &ServiceError) -> bool {
        let left = self.limit.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            tracing::warn!(%error, waited = ?self.limit,
                "the checkpoint store is out of reach; going on without it, from the key if need be, which may take long");
            return false;
        }
        let delay = self.backoff.next_delay().min(left);
        tracing::warn!(%error, again_in = ?delay, giving_up_in = ?left, "the checkpoint store is out of reach");
        tokio::time::sleep(delay).await;
        true
    }
}
