//! The one token bucket behind every rate of calls.

use std::time::Duration;

/// A bucket's rate and size. The level itself is with its owner, who may let it fall below zero: a debt.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    per_second: f64,
    capacity: f64,
}

impl TokenBucket {
    /// Returns a bucket that refills at `per_second` and holds what comes in `burst_seconds`.
    pub fn new(per_second: f64, burst_seconds: f64) -> Self {
        Self { per_second, capacity: per_second * burst_seconds }
    }

    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Returns the level `elapsed` after it was `level`.
    pub fn refilled(&self, level: f64, elapsed: Duration) -> f64 {
        (level + elapsed.as_secs_f64() * self.per_second).min(self.capacity)
    }
}
