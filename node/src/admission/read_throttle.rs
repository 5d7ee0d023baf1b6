//! How fast one connection, or all connections of a caller, are read. A caller that sends more waits: its connection is
//! not read for a while, and bytes that are not read cost no other caller a processor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::token_bucket::TokenBucket;

/// The cost of a message that is too large, in calls: it was read and decrypted up to its limit.
pub const TOO_LARGE_CALLS: f64 = 256.0;
/// Calls that may come at once, in seconds of the rate.
const BURST_SECONDS: f64 = 0.25;
/// The part of them that a connection begins with: one that is opened again and again has no burst each time.
const FIRST_SECONDS: f64 = 0.025;
/// Longest wait of a connection for calls of its own: its peer looks for signs of life.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Debt beyond this is forgiven: calls that were answered may have cost more than they seemed.
const DEEPEST_DEBT_SECONDS: f64 = 2.0;

/// A token bucket of calls, shared by a connection and the handlers of its calls. Clones share the bucket.
#[derive(Clone, Debug)]
pub struct ReadThrottle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bucket: TokenBucket,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Below zero where more came than there was room for: calls are never split.
    calls: f64,
    at: Instant,
}

impl ReadThrottle {
    /// Returns a throttle of `per_second` calls that begins with a tenth of its burst.
    pub fn new(per_second: u32) -> Self {
        let bucket = TokenBucket::new(per_second.into(), BURST_SECONDS);
        let level = Level { calls: bucket.per_second() * FIRST_SECONDS, at: Instant::now() };
        Self(Arc::new(Shared { bucket, level: Mutex::new(level) }))
    }

    /// Spends calls from a throttle that several connections share, and returns until when the spending one must not
    /// be read. Each waits for its own calls after all that were spent before, so that they are not read all at once.
    /// No debt is forgiven: a connection spends only when its wait is over, so that their common debt has an end.
    pub fn spend_shared(&self, calls: f64) -> Option<Instant> {
        self.refilled(Instant::now(), |level| {
            level.calls -= calls;
            level.paid_off_at(self.0.bucket.per_second())
        })
    }

    /// Spends calls of one connection.
    pub fn spend(&self, calls: f64) {
        self.spend_at(calls, Instant::now());
    }

    /// Returns when the connection may be read again; `None` for now.
    pub fn wait_until(&self) -> Option<Instant> {
        self.wait_until_at(Instant::now())
    }

    /// Returns the calls that may still come at once.
    pub fn left(&self) -> f64 {
        self.refilled(Instant::now(), |level| level.calls.max(0.0))
    }

    fn spend_at(&self, calls: f64, now: Instant) {
        let least = -DEEPEST_DEBT_SECONDS * self.0.bucket.per_second();
        self.refilled(now, |level| level.calls = (level.calls - calls).max(least));
    }

    fn wait_until_at(&self, now: Instant) -> Option<Instant> {
        let per_second = self.0.bucket.per_second();
        self.refilled(now, |level| level.paid_off_at(per_second).map(|until| until.min(now + LONGEST_WAIT)))
    }

    /// Returns whether a new throttle in its place would hold no more.
    fn is_as_new(&self) -> bool {
        let first = self.0.bucket.per_second() * FIRST_SECONDS;
        self.refilled(Instant::now(), |level| level.calls >= first)
    }

    fn refilled<T>(&self, now: Instant, then: impl FnOnce(&mut Level) -> T) -> T {
        let mut level = self.0.level.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(level.at);
        // Threads that read the clock may come here in another order.
        let at = now.max(level.at);
        *level = Level { calls: self.0.bucket.refilled(level.calls, elapsed), at };
        then(&mut level)
    }
}

impl Level {
    /// Returns when the debt is paid off, if there is one.
    fn paid_off_at(&self, per_second: f64) -> Option<Instant> {
        let seconds = -self.calls / per_second;
        (seconds > 0.0).then(|| self.at + Duration::from_secs_f64(seconds))
    }
}

/// One throttle for each caller, shared by all its connections, including those that come after one another.
#[derive(Debug)]
pub struct CallerThrottles {
    per_second: u32,
    known: Mutex<HashMap<String, ReadThrottle>>,
}

impl CallerThrottles {
    /// Returns throttles of `per_second` calls for each caller.
    pub fn new(per_second: u32) -> Self {
        Self { per_second, known: Mutex::default() }
    }

    /// Returns the throttle of the caller so named.
    pub fn for_caller(&self, caller: String) -> ReadThrottle {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(throttle) = known.get(&caller) {
            return throttle.clone();
        }
        // Those stay that have connections, or had some a moment ago and are in debt.
        known.retain(|_, throttle| Arc::strong_count(&throttle.0) > 1 || !throttle.is_as_new());
        let throttle = ReadThrottle::new(self.per_second);
        known.insert(caller, throttle.clone());
        throttle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_comes_back_at_the_rate() {
        let throttle = ReadThrottle::new(100);
        let start = throttle.0.level.lock().unwrap().at;
        let after = |seconds| start + Duration::from_secs_f64(seconds);
        throttle.spend_at(2.5, start);
        assert_eq!(throttle.wait_until_at(start), None, "little at once at first");
        throttle.spend_at(40.0, start);
        assert_eq!(throttle.wait_until_at(start), Some(after(0.4)));
        assert_eq!(throttle.wait_until_at(after(0.2)), Some(after(0.4)));
        assert_eq!(throttle.wait_until_at(after(0.4)), None);
        throttle.spend_at(1e6, after(0.4));
        assert_eq!(throttle.wait_until_at(after(0.4)), Some(after(0.9)), "held for as long as that at most");
        assert_eq!(throttle.wait_until_at(after(2.3)), Some(after(2.4)), "what is owed is not forgiven");
        assert_eq!(throttle.wait_until_at(after(2.4)), None, "beyond two seconds it is");
        throttle.spend_at(1.0, after(2.3));
        assert_eq!(
            throttle.wait_until_at(after(2.4)),
            Some(after(2.41)),
            "time counts once, whichever caller looks first"
        );
        (0..25).for_each(|_| throttle.spend_at(1.0, after(100.0)));
        assert_eq!(
            throttle.wait_until_at(after(100.0)),
            None,
            "a quarter of a second's worth at once, later"
        );
        throttle.spend_at(1.0, after(100.0));
        assert_eq!(
            throttle.wait_until_at(after(100.0)),
            Some(after(100.01)),
            "a bucket holds no more than that"
        );
    }

    #[test]
    fn connections_of_a_caller_share_its_pace_each_in_turn() {
        let throttles = CallerThrottles::new(1_000);
        let one = throttles.for_caller("a".into());
        let other = throttles.for_caller("a".into());
        let start = Instant::now();
        assert_eq!(one.spend_shared(20.0), None);
        let [first, second] = [one.spend_shared(105.0), other.spend_shared(100.0)].map(Option::unwrap);
        assert!(first >= start + Duration::from_millis(90) && first < second, "{:?}", second - first);
        assert_eq!(throttles.for_caller("b".into()).spend_shared(20.0), None);
        let third = other.spend_shared(2_000.0).unwrap();
        assert!(third > start + Duration::from_secs(2), "nothing is forgiven");
        drop((one, other));
        assert!(
            throttles.for_caller("a".into()).spend_shared(20.0) > Some(third),
            "a caller that comes again owes it still"
        );
    }

    #[test]
    fn callers_that_left_and_owe_nothing_are_forgotten() {
        let throttles = CallerThrottles::new(1_000);
        let names = |range: std::ops::Range<u32>| {
            range.map(|n| throttles.for_caller(n.to_string())).collect::<Vec<_>>()
        };
        let stay = names(0..10);
        drop(names(10..100));
        throttles.for_caller("owes".into()).spend_shared(100_000.0);
        drop(throttles.for_caller("last".into()));
        let known = throttles.known.lock().unwrap();
        assert_eq!(known.len(), stay.len() + 2, "{:?}", known.keys());
    }
}
