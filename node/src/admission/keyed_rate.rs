//! A rate for each of many: one bucket a key, all of the same size.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::token_bucket::TokenBucket;

/// Keys remembered before full buckets, which need no memory, are forgotten.
const REMEMBERED_KEYS: usize = 4096;

/// The rates of all keys.
#[derive(Debug)]
pub struct KeyedRates<K> {
    bucket: TokenBucket,
    levels: Mutex<HashMap<K, Level>>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    left: f64,
    at: Instant,
}

impl<K: Clone + Eq + Hash> KeyedRates<K> {
    /// Returns full buckets that refill at `per_second` and hold what comes in `burst_seconds`.
    pub fn new(per_second: f64, burst_seconds: f64) -> Self {
        Self { bucket: TokenBucket::new(per_second, burst_seconds), levels: Mutex::default() }
    }

    /// Takes an amount out of the key's bucket; where there is less, nothing, and returns the time until there is enough. More
    /// than a bucket holds is taken from a full one, and leaves a debt.
    pub fn take(&self, key: &K, amount: f64, now: Instant) -> Result<(), Duration> {
        let mut levels = self.levels();
        if levels.len() >= REMEMBERED_KEYS && !levels.contains_key(key) {
            levels.retain(|_, level| self.refilled(*level, now) < self.bucket.capacity());
        }
        let left = self.left(&levels, key, now);
        let missing = amount.min(self.bucket.capacity()) - left;
        if missing > 0.0 {
            return Err(
                Duration::try_from_secs_f64(missing / self.bucket.per_second()).unwrap_or(Duration::MAX)
            );
        }
        levels.insert(key.clone(), Level { left: left - amount, at: now });
        Ok(())
    }

    /// Gives an amount back that was taken and not used.
    pub fn give_back(&self, key: &K, amount: f64, now: Instant) {
        let mut levels = self.levels();
        let left = self.left(&levels, key, now) + amount;
        levels.insert(key.clone(), Level { left: left.min(self.bucket.capacity()), at: now });
    }

    fn levels(&self) -> MutexGuard<'_, HashMap<K, Level>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self, levels: &HashMap<K, Level>, key: &K, now: Instant) -> f64 {
        levels.get(key).map_or(self.bucket.capacity(), |level| self.refilled(*level, now))
    }

    fn refilled(&self, level: Level, now: Instant) -> f64 {
        self.bucket.refilled(level.left, now.saturating_duration_since(level.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_how_long_to_wait() {
        let rates = KeyedRates::new(2.0, 5.0);
        let start = Instant::now();
        assert_eq!(rates.take(&"a", 10.0, start), Ok(()));
        assert_eq!(rates.take(&"b", 1.0, start), Ok(()), "each for itself");
        assert_eq!(rates.take(&"a", 3.0, start), Err(Duration::from_millis(1_500)));
        let later = start + Duration::from_millis(1_500);
        assert_eq!(rates.take(&"a", 3.0, later), Ok(()));
        rates.give_back(&"a", 1.0, later);
        assert_eq!(rates.take(&"a", 1.0, later), Ok(()));
    }

    #[test]
    fn more_than_a_bucket_holds_is_a_debt_of_a_full_one() {
        let rates = KeyedRates::new(1.0, 10.0);
        let start = Instant::now();
        assert_eq!(rates.take(&"a", 30.0, start), Ok(()));
        assert_eq!(rates.take(&"a", 1.0, start), Err(Duration::from_secs(21)));
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let rates = KeyedRates::new(1.0, 1.0);
        let start = Instant::now();
        (0..REMEMBERED_KEYS).for_each(|key| rates.take(&key, 1.0, start).unwrap());
        rates.take(&REMEMBERED_KEYS, 1.0, start + Duration::from_secs(2)).unwrap();
        assert_eq!(rates.levels().len(), 1);
    }
}
