//! Calls a second of each caller: a bucket that refills at that rate and holds ten seconds' worth.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::token_bucket::TokenBucket;
use crate::auth::ClientKey;

/// Calls that a caller may make at once, in seconds of its rate.
const BURST_SECONDS: f64 = 10.0;
/// Callers remembered before full buckets, which need no memory, are forgotten.
const REMEMBERED_CALLERS: usize = 4096;

/// The rates of all callers.
#[derive(Debug)]
pub struct CallRates {
    bucket: TokenBucket,
    levels: Mutex<HashMap<ClientKey, Level>>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    calls: f64,
    at: Instant,
}

impl CallRates {
    /// Returns rates of `per_second` calls for each caller, with full buckets.
    pub fn new(per_second: u32) -> Self {
        Self { bucket: TokenBucket::new(per_second.into(), BURST_SECONDS), levels: Mutex::default() }
    }

    /// Takes one call out of the caller's bucket, and returns whether there was one.
    pub fn take(&self, client: &ClientKey) -> bool {
        self.take_at(client, Instant::now())
    }

    fn take_at(&self, client: &ClientKey, now: Instant) -> bool {
        let full = self.bucket.capacity();
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if levels.len() >= REMEMBERED_CALLERS && !levels.contains_key(client) {
            levels.retain(|_, level| self.refilled(*level, now) < full);
        }
        let level = levels.get(client).copied().unwrap_or(Level { calls: full, at: now });
        let calls = self.refilled(level, now);
        let is_enough = calls >= 1.0;
        let calls = if is_enough { calls - 1.0 } else { calls };
        levels.insert(client.clone(), Level { calls, at: now });
        is_enough
    }

    fn refilled(&self, level: Level, now: Instant) -> f64 {
        self.bucket.refilled(level.calls, now.saturating_duration_since(level.at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_and_then_the_rate_each_for_itself() {
        let rates = CallRates::new(5);
        let a = ClientKey("a".into());
        let b = ClientKey("b".into());
        let start = Instant::now();
        let taken = |client, at| (0..100).filter(|_| rates.take_at(client, at)).count();
        assert_eq!(taken(&a, start), 50);
        assert_eq!(taken(&b, start), 50);
        assert_eq!(taken(&a, start + Duration::from_secs(2)), 10);
    }
}
