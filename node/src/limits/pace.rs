//! How fast the calls of one connection are taken. Whoever sends more waits where they are: the connection is not read
//! for a while, and what is not read costs nobody else a processor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// What a message that is too large costs, in calls: it was read and decrypted up to its limit.
pub const TOO_LARGE: f64 = 256.0;
/// Calls that may come at once, in seconds of the rate.
const BURST_SECONDS: f64 = 0.25;
/// Of these, what a connection begins with: whoever comes again and again has no burst each time.
const FIRST_SECONDS: f64 = 0.025;
/// With less than this left, a connection is read in small pieces: what comes at once is worked off before anyone else
/// has a turn.
const LITTLE_SECONDS: f64 = 0.0125;
/// A connection is held for no longer than this: whoever is at the other end looks for signs of life.
const LONGEST_SECONDS: f64 = 0.5;

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
    /// what it has spent itself, after all that was spent before, so that they are not read all at once.
    pub fn spend_in_turn(&self, calls: f64) -> Option<Instant> {
        let now = Instant::now();
        self.spend_at(calls, now);
        self.until_at(now)
    }

    pub fn spend(&self, calls: f64) {
        self.spend_at(calls, Instant::now());
    }

    /// When the connection may be read again; `None`: now.
    pub fn until(&self) -> Option<Instant> {
        self.until_at(Instant::now())
    }

    /// Whether it is about to be held.
    pub fn is_low(&self) -> bool {
        self.is_low_at(Instant::now())
    }

    fn is_low_at(&self, now: Instant) -> bool {
        self.filled(now, |bucket| bucket.calls < LITTLE_SECONDS * self.0.per_second)
    }

    fn spend_at(&self, calls: f64, now: Instant) {
        let least = -LONGEST_SECONDS * self.0.per_second;
        self.filled(now, |bucket| bucket.calls = (bucket.calls - calls).max(least));
    }

    fn until_at(&self, now: Instant) -> Option<Instant> {
        self.filled(now, |bucket| {
            let seconds = -bucket.calls / self.0.per_second;
            (seconds > 0.0).then(|| bucket.at + Duration::from_secs_f64(seconds))
        })
    }

    fn filled<T>(&self, now: Instant, then: impl FnOnce(&mut Bucket) -> T) -> T {
        let mut bucket = self.0.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        let full = self.0.per_second * BURST_SECONDS;
        *bucket = Bucket { calls: (bucket.calls + since * self.0.per_second).min(full), at: now };
        then(&mut bucket)
    }
}

/// One pace for all connections of a caller, as long as one of them is open.
#[derive(Debug)]
pub struct Paces {
    per_second: u32,
    open: Mutex<HashMap<String, Weak<Shared>>>,
}

impl Paces {
    pub fn new(per_second: u32) -> Self {
        Self { per_second, open: Mutex::default() }
    }

    pub fn of(&self, caller: String) -> Pace {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = open.get(&caller).and_then(Weak::upgrade) {
            return Pace(pace);
        }
        // At most as many are left as there are connections.
        open.retain(|_, pace| pace.strong_count() > 0);
        let pace = Pace::new(self.per_second);
        open.insert(caller, Arc::downgrade(&pace.0));
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
        assert!(!pace.is_low_at(start));
        pace.spend_at(2.5, start);
        assert_eq!(pace.until_at(start), None, "little at once at first");
        assert!(pace.is_low_at(start));
        pace.spend_at(40.0, start);
        assert_eq!(pace.until_at(start), Some(after(0.4)));
        assert_eq!(pace.until_at(after(0.2)), Some(after(0.4)));
        assert_eq!(pace.until_at(after(0.4)), None);
        pace.spend_at(1e6, after(0.4));
        assert_eq!(pace.until_at(after(0.4)), Some(after(0.9)), "held for as long as that at most");
        (0..25).for_each(|_| pace.spend_at(1.0, after(100.0)));
        assert_eq!(pace.until_at(after(100.0)), None, "a quarter of a second's worth at once, later");
        pace.spend_at(1.0, after(100.0));
        assert_eq!(pace.until_at(after(100.0)), Some(after(100.01)), "a bucket holds no more than that");
    }

    #[test]
    fn connections_of_a_caller_share_its_pace_each_in_turn() {
        let paces = Paces::new(1_000);
        let (one, other) = (paces.of("a".into()), paces.of("a".into()));
        let start = Instant::now();
        assert_eq!(one.spend_in_turn(20.0), None);
        let [first, second] = [one.spend_in_turn(105.0), other.spend_in_turn(100.0)].map(Option::unwrap);
        assert!(first >= start + Duration::from_millis(90) && first < second, "{:?}", second - first);
        assert_eq!(paces.of("b".into()).spend_in_turn(20.0), None);
        drop((one, other));
        assert_eq!(paces.of("a".into()).spend_in_turn(20.0), None, "begun anew");
        assert!(paces.open.lock().unwrap().len() <= 2);
    }
}
