//! One line a peer and minute: whoever is refused a thousand times a second must not fill the disk with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60);
/// More peers than this at once share one line.
const PEERS: usize = 1024;

/// The peers that a line was logged about within the last minute.
#[derive(Debug, Default)]
pub struct RateLimitedLog(Mutex<HashMap<String, Instant>>);

impl RateLimitedLog {
    /// Whether to say something about this peer now.
    pub fn is_due(&self, peer: &str) -> bool {
        let now = Instant::now();
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(peer).is_some_and(|at| now - *at < EVERY) {
            return false;
        }
        if said.len() >= PEERS {
            said.retain(|_, at| now - *at < EVERY);
        }
        if said.len() >= PEERS {
            return false;
        }
        said.insert(peer.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_is_told_of_once() {
        let log = RateLimitedLog::default();
        assert!(log.is_due("a") && log.is_due("b"));
        assert!(!log.is_due("a") && !log.is_due("b"));
        let due = (0..5000).filter(|peer| log.is_due(&peer.to_string())).count();
        assert_eq!(due, PEERS - 2);
    }
}
