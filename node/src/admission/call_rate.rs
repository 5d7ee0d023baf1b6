//! Calls a second of each caller: a bucket that refills at that rate and holds ten seconds' worth.

use std::time::Instant;

use super::keyed_rate::KeyedRates;
use crate::auth::ClientKey;

/// Calls that a caller may make at once, in seconds of its rate.
const BURST_SECONDS: f64 = 10.0;

/// The rates of all callers.
#[derive(Debug)]
pub struct CallRates(KeyedRates<ClientKey>);

impl CallRates {
    /// Returns rates of `per_second` calls for each caller, with full buckets.
    pub fn new(per_second: u32) -> Self {
        Self(KeyedRates::new(per_second.into(), BURST_SECONDS))
    }

    /// Takes one call out of the caller's bucket, and returns whether there was one.
    pub fn take(&self, client: &ClientKey) -> bool {
        self.take_at(client, Instant::now())
    }

    fn take_at(&self, client: &ClientKey, now: Instant) -> bool {
        self.0.take(client, 1.0, now).is_ok()
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
