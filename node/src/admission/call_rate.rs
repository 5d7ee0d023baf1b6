//! Calls a second of one caller: a bucket that fills at that rate and holds ten seconds' worth.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::auth::ClientKey;

const BURST_SECONDS: f64 = 10.0;
/// Full buckets are forgotten when there are more than this.
const KEPT: usize = 4096;

#[derive(Debug)]
pub struct Rates {
    per_second: f64,
    buckets: Mutex<HashMap<ClientKey, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    calls: f64,
    at: Instant,
}

impl Rates {
    pub fn new(per_second: u32) -> Self {
        Self { per_second: per_second.into(), buckets: Mutex::default() }
    }

    /// Takes one call out of the caller's bucket; false where it is empty.
    pub fn take(&self, client: &ClientKey) -> bool {
        self.take_at(client, Instant::now())
    }

    fn take_at(&self, client: &ClientKey, now: Instant) -> bool {
        let full = self.per_second * BURST_SECONDS;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= KEPT && !buckets.contains_key(client) {
            buckets.retain(|_, bucket| self.filled(*bucket, now) < full);
        }
        let bucket = buckets.get(client).copied().unwrap_or(Bucket { calls: full, at: now });
        let calls = self.filled(bucket, now);
        let is_enough = calls >= 1.0;
        let calls = if is_enough { calls - 1.0 } else { calls };
        buckets.insert(client.clone(), Bucket { calls, at: now });
        is_enough
    }

    fn filled(&self, bucket: Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.calls + since * self.per_second).min(self.per_second * BURST_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_and_then_the_rate_each_for_itself() {
        let rates = Rates::new(5);
        let a = ClientKey("a".into());
        let b = ClientKey("b".into());
        let start = Instant::now();
        let taken = |client, at| (0..100).filter(|_| rates.take_at(client, at)).count();
        assert_eq!(taken(&a, start), 50);
        assert_eq!(taken(&b, start), 50);
        assert_eq!(taken(&a, start + Duration::from_secs(2)), 10);
    }
}
