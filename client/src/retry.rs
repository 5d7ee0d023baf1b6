//! What to do after an error, and how long to wait first.

use std::time::Duration;

use proto::ServiceError;

/// What a fetch does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask for the routing again, then for what is missing.
    Retry,
    /// Also bind again: the tokens have expired, or are those of a coordinator that has started anew since.
    Rebind,
    /// The same request would be refused again, or its outcome is not known.
    Stop,
}

pub fn after(error: &ServiceError) -> Next {
    match error {
        // Binding the same rows to the same commitments again changes nothing.
        ServiceError::NotBound { .. }
        | ServiceError::TokenExpired { .. }
        | ServiceError::StaleEpoch { .. } => Next::Rebind,
        error if error.retry_safe() => Next::Retry,
        _ => Next::Stop,
    }
}

/// Doubling delays, each drawn from the upper half of its range, so that clients that failed together don't come
/// back together.
#[derive(Clone, Debug)]
pub struct Delays {
    first: Duration,
    cap: Duration,
    longest: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self::new(Duration::from_millis(20), Duration::from_millis(500))
    }
}

impl Delays {
    pub fn new(first: Duration, cap: Duration) -> Self {
        Self { first, cap, longest: first }
    }

    /// After progress.
    pub fn reset(&mut self) {
        self.longest = self.first;
    }

    pub fn next_delay(&mut self) -> Duration {
        let longest = self.longest;
        self.longest = longest.saturating_mul(2).min(self.cap);
        jittered(longest, node::process::rng::fraction())
    }
}

fn jittered(longest: Duration, fraction: f64) -> Duration {
    longest / 2 + (longest / 2).mul_f64(fraction.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn delays_stay_in_the_upper_half(millis in 1u64..10_000, fraction in 0.0f64..=1.0) {
            let longest = Duration::from_millis(millis);
            let delay = jittered(longest, fraction);
            prop_assert!(longest / 2 <= delay && delay <= longest);
        }

        #[test]
        fn delays_grow_to_the_cap_and_no_further(first in 1u64..100, factor in 1u32..100) {
            let first = Duration::from_millis(first);
            let mut delays = Delays::new(first, first * factor);
            let drawn: Vec<_> = (0..20).map(|_| delays.next_delay()).collect();
            prop_assert!(drawn.iter().all(|&delay| first / 2 <= delay && delay <= first * factor));
            prop_assert!(drawn[19] >= first * factor / 2);
            delays.reset();
            prop_assert!(delays.next_delay() <= first);
        }
    }

    #[test]
    fn only_safe_errors_are_retried() {
        let job = || "j".to_owned();
        assert_eq!(after(&ServiceError::Draining), Next::Retry);
        assert_eq!(
            after(&ServiceError::Fenced { job: job(), shard: 0, presented: 1, current: 2 }),
            Next::Retry
        );
        assert_eq!(after(&ServiceError::NotBound { job: job(), branch: 0, row: 1 }), Next::Rebind);
        assert_eq!(after(&ServiceError::AlreadyBound { job: job(), branch: 0, row: 1 }), Next::Stop);
        assert_eq!(after(&ServiceError::internal("?")), Next::Stop);
    }
}
