//! Delays between attempts: doubling up to a cap, each drawn from the upper half of its range.
//!
//! Half of each delay is fixed, so that a retry never comes at once; half is random, so that many clients
//! that failed together do not return together.

use std::time::Duration;

use crate::process::rng;

/// Shortest first delay: zero would double to zero for ever and make a retry loop spin.
const SHORTEST_FIRST: Duration = Duration::from_millis(1);

/// An endless iterator of delays. The n-th lies in `[d/2, d]` with `d = min(first * 2^n, cap)`.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    next: Duration,
}

impl Backoff {
    /// Returns delays from `first` up to `cap`. `first` is raised to 1 ms where it is shorter, and `cap` to `first`.
    pub fn new(first: Duration, cap: Duration) -> Backoff {
        let first = first.max(SHORTEST_FIRST);
        Backoff { first, cap: cap.max(first), next: first }
    }

    /// Returns the delays between attempts of a call that a training job waits for: from 20 ms, because most causes
    /// (a new lease, a new leader) pass within that, up to 0.5 s, so that the end of an outage is soon noticed.
    pub fn for_calls() -> Backoff {
        Backoff::new(Duration::from_millis(20), Duration::from_millis(500))
    }

    /// Returns the delays between a worker's attempts to reach its coordinator: up to the time that a new coordinator
    /// waits for its workers ([`proto::LONGEST_WORKER_BACKOFF`]).
    pub fn for_workers() -> Backoff {
        Backoff::new(Duration::from_millis(50), proto::LONGEST_WORKER_BACKOFF)
    }

    /// Returns the delays between attempts to read from a checkpoint store, which throttles clients that return soon:
    /// from 0.5 s up to 20 s.
    pub fn for_stores() -> Backoff {
        Backoff::new(Duration::from_millis(500), Duration::from_secs(20))
    }

    /// Draws the next delay.
    pub fn next_delay(&mut self) -> Duration {
        let longest = self.next;
        self.next = longest.saturating_mul(2).min(self.cap);
        longest / 2 + (longest / 2).mul_f64(rng::fraction())
    }

    /// Starts again from the first delay: call it after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.next_delay())
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
        assert!(
            Backoff::new(Duration::ZERO, Duration::ZERO).take(20).all(|delay| delay >= SHORTEST_FIRST / 2)
        );
    }

    #[test]
    fn a_retry_of_a_call_is_quick_and_never_waits_for_half_a_second() {
        let mut backoff = Backoff::for_calls();
        let first = backoff.next().unwrap();
        assert!((Duration::from_millis(10)..=Duration::from_millis(20)).contains(&first), "{first:?}");
        assert!(backoff.take(20).all(|delay| delay <= Duration::from_millis(500)));
    }
}
