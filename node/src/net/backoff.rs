//! Delays between attempts: doubling up to a cap, each drawn from the upper half of its range.
//!
//! Half of each delay is fixed, so that a retry never comes at once; half is random, so that many clients
//! that failed together do not return together.

use std::time::Duration;

use crate::process::rng;

/// A zero first delay would double to zero for ever and make a retry loop spin.
const SHORTEST: Duration = Duration::from_millis(1);

/// An endless iterator of delays. The n-th lies in `[d/2, d]` with `d = min(first * 2^n, cap)`.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    next: Duration,
}

impl Backoff {
    /// `first` is raised to 1 ms where it is shorter, and `cap` to `first`.
    pub fn new(first: Duration, cap: Duration) -> Backoff {
        let first = first.max(SHORTEST);
        Backoff { first, cap: cap.max(first), next: first }
    }

    /// Starts again from the first delay: call after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let longest = self.next;
        self.next = longest.saturating_mul(2).min(self.cap);
        Some(longest / 2 + (longest / 2).mul_f64(rng::fraction()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_stay_in_the_upper_half() {
        let mut longest = Duration::from_millis(100);
        let cap = Duration::from_secs(1);
        for delay in Backoff::new(longest, cap).take(50) {
            assert!(
                longest / 2 <= delay && delay <= longest,
                "{delay:?} outside [{longest:?}/2, {longest:?}]"
            );
            longest = (longest * 2).min(cap);
        }
    }

    #[test]
    fn two_clients_do_not_keep_step() {
        let delays =
            || Backoff::new(Duration::from_secs(1), Duration::from_secs(60)).take(8).collect::<Vec<_>>();
        assert_ne!(delays(), delays());
    }

    #[test]
    fn reset_starts_again() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(9));
        backoff.nth(8);
        backoff.reset();
        assert!(backoff.next().unwrap() <= Duration::from_millis(10));
    }

    #[test]
    fn zero_delays_cannot_make_a_loop_spin() {
        assert!(Backoff::new(Duration::ZERO, Duration::ZERO).take(20).all(|delay| delay >= SHORTEST / 2));
    }
}
