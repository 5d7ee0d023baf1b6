//! The wait for a coordinator that leads.

use std::time::Duration;

use node::net::backoff::Backoff;
use tokio::time::{Instant, sleep};

/// Longest wait for a leader: longer than an election takes.
const LEADER_TIMEOUT: Duration = Duration::from_secs(15);

/// The pauses of one call between its attempts, while no coordinator leads.
pub struct Patience {
    backoff: Backoff,
    until: Instant,
}

impl Patience {
    /// Begins to wait.
    pub fn new() -> Self {
        Self { backoff: Backoff::for_calls(), until: Instant::now() + LEADER_TIMEOUT }
    }

    /// Returns whether another attempt may follow.
    pub fn is_left(&self) -> bool {
        Instant::now() < self.until
    }

    /// Pauses before the next attempt.
    pub async fn pause(&mut self) {
        sleep(self.backoff.next_delay()).await;
    }
}
