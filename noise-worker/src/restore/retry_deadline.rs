//! How long a shard waits for a checkpoint store that is out of reach.

use std::time::Duration;

use node::backoff::Backoff;
use proto::ServiceError;
use tokio::time::Instant;

/// All checkpoints of a restore together, where making the rows again would take longer still. Then the key, which is
/// always there: a store that was named wrongly must not hold a job up for ever.
pub const LONGEST: Duration = Duration::from_secs(300);

const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(20);

pub struct Patience {
    /// Since the first time that the store was out of reach.
    since: Option<Instant>,
    limit: Duration,
    backoff: Backoff,
}

impl Patience {
    /// `replay`: how long it would take to do without, if that is known. Who waits for as long as that, and then has to do
    /// it, has lost no more than twice the better of the two.
    pub fn against(replay: Option<Duration>) -> Self {
        let limit = replay.map_or(LONGEST, |replay| replay.min(LONGEST));
        Self { since: None, limit, backoff: Backoff::new(FIRST_DELAY, LONGEST_DELAY) }
    }

    /// Waits before another attempt. False where patience is at its end.
    pub async fn wait(&mut self, error: &ServiceError) -> bool {
        let left = self.limit.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            tracing::warn!(%error, waited = ?self.limit,
                "the checkpoint store is out of reach; going on without it, from the key if need be, which may take long");
            return false;
        }
        let delay = self.backoff.next().unwrap_or(LONGEST_DELAY).min(left);
        tracing::warn!(%error, again_in = ?delay, giving_up_in = ?left, "the checkpoint store is out of reach");
        tokio::time::sleep(delay).await;
        true
    }
}
