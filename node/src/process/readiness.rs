//! Readiness: whether this process should be sent work, and if not, why.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The readiness of a process. Clones share it.
#[derive(Debug, Clone)]
pub struct Readiness {
    // One lock over both facts, instead of a flag and a reason that could disagree. `None` is ready.
    obstacle: Arc<Mutex<Option<String>>>,
}

impl Readiness {
    /// Returns the readiness of a process that is not ready yet.
    pub fn not_ready(reason: impl Into<String>) -> Readiness {
        Readiness { obstacle: Arc::new(Mutex::new(Some(reason.into()))) }
    }

    /// Marks the process as ready.
    pub fn set_ready(&self) {
        *self.lock() = None;
    }

    /// Marks the process as not ready, for this reason.
    pub fn set_not_ready(&self, reason: impl Into<String>) {
        *self.lock() = Some(reason.into());
    }

    /// Returns whether the process is ready.
    pub fn is_ready(&self) -> bool {
        self.lock().is_none()
    }

    /// Returns the reason as an error where the process is not ready.
    pub fn check(&self) -> Result<(), String> {
        self.lock().clone().map_or(Ok(()), Err)
    }

    /// Locks the obstacle. A panic elsewhere cannot leave an `Option<String>` half written, so a poisoned lock is still good.
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.obstacle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_state_and_the_last_reason_wins() {
        let readiness = Readiness::not_ready("starting");
        let seen_by_endpoint = readiness.clone();
        assert_eq!(seen_by_endpoint.check(), Err("starting".to_owned()));
        readiness.set_ready();
        assert!(seen_by_endpoint.is_ready());
        readiness.set_not_ready("draining");
        assert_eq!(seen_by_endpoint.check(), Err("draining".to_owned()));
    }
}
