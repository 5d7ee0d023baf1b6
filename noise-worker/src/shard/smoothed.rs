//! A smoothed measurement that threads share without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// The share of a new value in the smoothed one: some four batches decide, so that one slow batch does not.
const WEIGHT: f64 = 0.25;

/// An exponentially smoothed number: the bits of an `f64`; 0 before the first value.
///
/// One thread adds values, and any may read them.
#[derive(Debug, Default)]
pub struct Smoothed(AtomicU64);

impl Smoothed {
    /// Returns the smoothed number.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Adds a value. The first is taken as it is.
    pub fn add(&self, value: f64) {
        let before = self.get();
        let smoothed = if before == 0.0 { value } else { before + (value - before) * WEIGHT };
        self.0.store(smoothed.to_bits(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_value_counts_for_a_quarter() {
        let smoothed = Smoothed::default();
        assert_eq!(smoothed.get(), 0.0);
        smoothed.add(2.0);
        assert_eq!(smoothed.get(), 2.0);
        smoothed.add(6.0);
        assert_eq!(smoothed.get(), 3.0);
    }
}
