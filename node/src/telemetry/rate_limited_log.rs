//! One log line for each peer and minute: a peer that is refused a thousand times a second must not fill the disk.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines about one peer.
const INTERVAL: Duration = Duration::from_secs(60);
/// Peers remembered at once; further ones are not logged.
const MAX_PEERS: usize = 1024;

/// The peers that a line was logged about within the last minute.
#[derive(Debug, Default)]
pub struct RateLimitedLog(Mutex<HashMap<String, Instant>>);

impl RateLimitedLog {
    /// Returns whether to log a line about this peer now.
    pub fn is_due(&self, peer: &str) -> bool {
        let now = Instant::now();
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.get(peer).is_some_and(|at| now - *at < INTERVAL) {
            return false;
        }
        if logged.len() >= MAX_PEERS {
            logged.retain(|_, at| now - *at < INTERVAL);
        }
        if logged.len() >= MAX_PEERS {
            return false;
        }
        logged.insert(peer.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_is_logged_once() {
        let log = RateLimitedLog::default();
        assert!(log.is_due("a") && log.is_due("b"));
        assert!(!log.is_due("a") && !log.is_due("b"));
        let due = (0..5000).filter(|peer| log.is_due(&peer.to_string())).count();
        assert_eq!(due, MAX_PEERS - 2);
    }
}
