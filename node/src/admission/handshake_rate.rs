//! The rate of TLS handshakes of each address. A handshake costs a processor more than any call that is refused, so an
//! address that connects again and again would slow down every other.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Handshakes that may come at once, in seconds of the rate.
const BURST_SECONDS: f64 = 4.0;
/// Longest wait of a handshake; one that would wait longer is refused and may be tried again. Clients give up after two
/// seconds, and time reserved for one that has left is lost.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Addresses remembered before those with a full burst left are forgotten.
const REMEMBERED_ADDRESSES: usize = 4096;

/// A limit on the TLS handshakes of each address.
#[derive(Debug)]
pub struct HandshakeRate {
    gap: Duration,
    burst: Duration,
    /// The time at which each address's handshakes so far would be done, one after the other at the rate.
    done_at: Mutex<HashMap<IpAddr, Instant>>,
}

impl HandshakeRate {
    /// Returns a rate of `per_second` handshakes for each address, with four seconds' worth at once.
    pub fn new(per_second: u32) -> Self {
        let gap = Duration::from_secs(1) / per_second.max(1);
        Self { gap, burst: Duration::from_secs_f64(BURST_SECONDS), done_at: Mutex::default() }
    }

    /// Reserves the address's next handshake and returns when it may run; `None` where that is not soon.
    pub fn reserve(&self, address: IpAddr) -> Option<Instant> {
        self.reserve_at(address, Instant::now())
    }

    fn reserve_at(&self, address: IpAddr, now: Instant) -> Option<Instant> {
        let mut done_at = self.done_at.lock().unwrap_or_else(PoisonError::into_inner);
        if done_at.len() >= REMEMBERED_ADDRESSES {
            done_at.retain(|_, at| *at > now);
        }
        let own = done_at.entry(address).or_insert(now);
        let next = (*own).max(now) + self.gap;
        // Not subtracted from an instant, which may be too early for that.
        let ahead = next.saturating_duration_since(now).saturating_sub(self.burst);
        let is_soon = ahead <= LONGEST_WAIT.max(self.gap);
        if is_soon {
            *own = next;
        }
        is_soon.then_some(now + ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_after_the_other_each_address_for_itself() {
        let turns = HandshakeRate::new(10);
        let one = [10, 0, 0, 1].into();
        let other = [10, 0, 0, 2].into();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        (0..40).for_each(|_| assert_eq!(turns.reserve_at(one, start), Some(start)));
        assert_eq!(turns.reserve_at(one, start), Some(after(100)));
        assert_eq!(turns.reserve_at(one, start), Some(after(200)));
        assert_eq!(turns.reserve_at(other, start), Some(start));
        assert_eq!(turns.reserve_at(one, after(300)), Some(after(300)));
        assert_eq!(turns.reserve_at(one, after(300)), Some(after(400)), "who waits has its turn taken");
        (0..40).for_each(|_| assert_eq!(turns.reserve_at(one, after(9_000)), Some(after(9_000))));
        assert_eq!(
            turns.reserve_at(one, after(9_000)),
            Some(after(9_100)),
            "no more than a burst is saved up"
        );
    }

    #[test]
    fn a_caller_that_would_wait_for_long_is_refused_and_takes_no_turn() {
        let turns = HandshakeRate::new(10);
        let one = [10, 0, 0, 1].into();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        (0..50).for_each(|_| assert!(turns.reserve_at(one, start).is_some()));
        (0..1_000).for_each(|_| assert_eq!(turns.reserve_at(one, start), None));
        assert_eq!(turns.reserve_at(one, after(100)), Some(after(1_100)));
        assert_eq!(turns.reserve_at(one, after(100)), None);
        let slow = HandshakeRate::new(1);
        (0..5)
            .for_each(|_| assert!(slow.reserve_at(one, start).is_some(), "a second's wait is none too long"));
    }
}
