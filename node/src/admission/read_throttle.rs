//! How fast the calls of one connection are taken. Whoever sends more waits where they are: the connection is not read
//! for a while, and what is not read costs nobody else a processor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What a message that is too large costs, in calls: it was read and decrypted up to its limit.
pub const TOO_LARGE: f64 = 256.0;
/// Calls that may come at once, in seconds of the rate.
const BURST_SECONDS: f64 = 0.25;
/// Of these, what a connection begins with: whoever comes again and again has no burst each time.
const FIRST_SECONDS: f64 = 0.025;
/// A connection is held for no longer than this for what it spent itself: whoever is at the other end looks for signs
/// of life.
const LONGEST: Duration = Duration::from_millis(500);
/// What it owes beyond this is forgiven: calls that were answered may have been dearer than they seemed.
const DEEPEST_SECONDS: f64 = 2.0;

/// A bucket of calls, shared by a connection and those who answer its calls.
#[derive(Clone, Debug)]
pub struct Pace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    per_second: f64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Below zero where more came than there was room for: calls are never split.
    calls: f64,
    at: Instant,
}

impl Pace {
    pub fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        let bucket = Bucket { calls: per_second * FIRST_SECONDS, at: Instant::now() };
        Self(Arc::new(Shared { per_second, bucket: Mutex::new(bucket) }))
    }

    /// Of a caller's, for one of the connections that share it: until when that one is not to be read. Each waits for
    /// what it has spent itself, after all that was spent before, so that they are not read all at once. Nothing is
    /// forgiven: no connection spends before its turn, so that what they owe together has an end.
    pub fn spend_in_turn(&self, calls: f64) -> Option<Instant> {
        self.filled(Instant::now(), |bucket| {
            bucket.calls -= calls;
            bucket.until(self.0.per_second)
        })
    }

    pub fn spend(&self, calls: f64) {
        self.spend_at(calls, Instant::now());
    }

    /// When the connection may be read again; `None`: now.
    pub fn until(&self) -> Option<Instant> {
        self.until_at(Instant::now())
    }

    /// Calls that may still come at once.
    pub fn left(&self) -> f64 {
        self.filled(Instant::now(), |bucket| bucket.calls.max(0.0))
    }

    fn spend_at(&self, calls: f64, now: Instant) {
        let least = -DEEPEST_SECONDS * self.0.per_second;
        self.filled(now, |bucket| bucket.calls = (bucket.calls - calls).max(least));
    }

    fn until_at(&self, now: Instant) -> Option<Instant> {
        self.filled(now, |bucket| bucket.until(self.0.per_second).map(|until| until.min(now + LONGEST)))
    }

    /// Whether whoever forgets it and begins anew gains nothing.
    fn is_as_new(&self) -> bool {
        self.filled(Instant::now(), |bucket| bucket.calls >= self.0.per_second * FIRST_SECONDS)
    }

    fn filled<T>(&self, now: Instant, then: impl FnOnce(&mut Bucket) -> T) -> T {
        let mut bucket = self.0.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        let full = self.0.per_second * BURST_SECONDS;
        // Whoever read the clock first may come second.
        let at = now.max(bucket.at);
        *bucket = Bucket { calls: (bucket.calls + since * self.0.per_second).min(full), at };
        then(&mut bucket)
    }
}

impl Bucket {
    /// When nothing is owed any more, if anything is.
    fn until(&self, per_second: f64) -> Option<Instant> {
        let seconds = -self.calls / per_second;
        (seconds > 0.0).then(|| self.at + Duration::from_secs_f64(seconds))
    }
}

/// One pace for all connections of a caller, those that come after one another among them.
#[derive(Debug)]
pub struct Paces {
    per_second: u32,
    known: Mutex<HashMap<String, Pace>>,
}

impl Paces {
    pub fn new(per_second: u32) -> Self {
        Self { per_second, known: Mutex::default() }
    }

    pub fn of(&self, caller: String) -> Pace {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = known.get(&caller) {
            return pace.clone();
        }
        // Those are left that have connections, or had some a moment ago and owe for them.
        known.retain(|_, pace| Arc::strong_count(&pace.0) > 1 || !pace.is_as_new());
        let pace = Pace::new(self.per_second);
        known.insert(caller, pace.clone());
        pace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_comes_back_at_the_rate() {
        let pace = Pace::new(100);
        let start = pace.0.bucket.lock().unwrap().at;
        let after = |seconds| start + Duration::from_secs_f64(seconds);
        pace.spend_at(2.5, start);
        assert_eq!(pace.until_at(start), None, "little at once at first");
        pace.spend_at(40.0, start);
        assert_eq!(pace.until_at(start), Some(after(0.4)));
        assert_eq!(pace.until_at(after(0.2)), Some(after(0.4)));
        assert_eq!(pace.until_at(after(0.4)), None);
        pace.spend_at(1e6, after(0.4));
        assert_eq!(pace.until_at(after(0.4)), Some(after(0.9)), "held for as long as that at most");
        assert_eq!(pace.until_at(after(2.3)), Some(after(2.4)), "what is owed is not forgiven");
        assert_eq!(pace.until_at(after(2.4)), None, "beyond two seconds it is");
        pace.spend_at(1.0, after(2.3));
        assert_eq!(pace.until_at(after(2.4)), Some(after(2.41)), "time counts once, whoever looks first");
        (0..25).for_each(|_| pace.spend_at(1.0, after(100.0)));
        assert_eq!(pace.until_at(after(100.0)), None, "a quarter of a second's worth at once, later");
        pace.spend_at(1.0, after(100.0));
        assert_eq!(pace.until_at(after(100.0)), Some(after(100.01)), "a bucket holds no more than that");
    }

    #[test]
    fn connections_of_a_caller_share_its_pace_each_in_turn() {
        let paces = Paces::new(1_000);
        let one = paces.of("a".into());
        let other = paces.of("a".into());
        let start = Instant::now();
        assert_eq!(one.spend_in_turn(20.0), None);
        let [first, second] = [one.spend_in_turn(105.0), other.spend_in_turn(100.0)].map(Option::unwrap);
        assert!(first >= start + Duration::from_millis(90) && first < second, "{:?}", second - first);
        assert_eq!(paces.of("b".into()).spend_in_turn(20.0), None);
        let third = other.spend_in_turn(2_000.0).unwrap();
        assert!(third > start + Duration::from_secs(2), "nothing is forgiven");
        drop((one, other));
        assert!(paces.of("a".into()).spend_in_turn(20.0) > Some(third), "whoever comes again owes it still");
    }

    #[test]
    fn callers_that_left_and_owe_nothing_are_forgotten() {
        let paces = Paces::new(1_000);
        let names = |range: std::ops::Range<u32>| range.map(|n| paces.of(n.to_string())).collect::<Vec<_>>();
        let stay = names(0..10);
        drop(names(10..100));
        paces.of("owes".into()).spend_in_turn(100_000.0);
        drop(paces.of("last".into()));
        let known = paces.known.lock().unwrap();
        assert_eq!(known.len(), stay.len() + 2, "{:?}", known.keys());
    }
}
