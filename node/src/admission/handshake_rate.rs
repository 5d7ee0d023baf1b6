//! When each address may shake hands: a TLS handshake costs a processor more than any call that is refused, and whoever
//! connects again and again would cost everyone else theirs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Handshakes at once, in seconds of the rate.
const BURST_SECONDS: f64 = 4.0;
/// Whoever would wait longer is refused and may come again: clients give up after two seconds, and a turn of one that
/// has left helps nobody.
const LONGEST: Duration = Duration::from_secs(1);
/// Addresses that have all of theirs left are forgotten when there are more than this.
const KEPT: usize = 4096;

#[derive(Debug)]
pub struct Turns {
    gap: Duration,
    burst: Duration,
    /// When each address's handshakes so far would be through, one after the other at the rate.
    through: Mutex<HashMap<IpAddr, Instant>>,
}

impl Turns {
    pub fn new(per_second: u32) -> Self {
        let gap = Duration::from_secs(1) / per_second.max(1);
        Self { gap, burst: Duration::from_secs_f64(BURST_SECONDS), through: Mutex::default() }
    }

    /// Takes the address's next turn, where it is soon; says when that is.
    pub fn take(&self, address: IpAddr) -> Option<Instant> {
        self.take_at(address, Instant::now())
    }

    fn take_at(&self, address: IpAddr, now: Instant) -> Option<Instant> {
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        if through.len() >= KEPT {
            through.retain(|_, at| *at > now);
        }
        let own = through.entry(address).or_insert(now);
        let next = (*own).max(now) + self.gap;
        // Not subtracted from an instant, which may be too early for that.
        let ahead = next.saturating_duration_since(now).saturating_sub(self.burst);
        let is_soon = ahead <= LONGEST.max(self.gap);
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
        let turns = Turns::new(10);
        let one = [10, 0, 0, 1].into();
        let other = [10, 0, 0, 2].into();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        (0..40).for_each(|_| assert_eq!(turns.take_at(one, start), Some(start)));
        assert_eq!(turns.take_at(one, start), Some(after(100)));
        assert_eq!(turns.take_at(one, start), Some(after(200)));
        assert_eq!(turns.take_at(other, start), Some(start));
        assert_eq!(turns.take_at(one, after(300)), Some(after(300)));
        assert_eq!(turns.take_at(one, after(300)), Some(after(400)), "who waits has its turn taken");
        (0..40).for_each(|_| assert_eq!(turns.take_at(one, after(9_000)), Some(after(9_000))));
        assert_eq!(turns.take_at(one, after(9_000)), Some(after(9_100)), "no more than a burst is saved up");
    }

    #[test]
    fn whoever_would_wait_for_long_is_refused_and_takes_nobodys_turn() {
        let turns = Turns::new(10);
        let one = [10, 0, 0, 1].into();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        (0..50).for_each(|_| assert!(turns.take_at(one, start).is_some()));
        (0..1_000).for_each(|_| assert_eq!(turns.take_at(one, start), None));
        assert_eq!(turns.take_at(one, after(100)), Some(after(1_100)));
        assert_eq!(turns.take_at(one, after(100)), None);
        let slow = Turns::new(1);
        (0..5).for_each(|_| assert!(slow.take_at(one, start).is_some(), "a second's wait is none too long"));
    }
}
