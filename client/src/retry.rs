//! The action of a fetch after an error.

use proto::ServiceError;

/// The action of a fetch after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAction {
    /// Request the routing again, then the chunks that are missing.
    Retry,
    /// Also bind again: the tokens have expired, or their coordinator has restarted since.
    Rebind,
    /// Return the error: the same request would be refused again, or its outcome is unknown.
    Stop,
}

/// Returns what a fetch does after `error`.
pub fn classify(error: &ServiceError) -> RetryAction {
    match error {
        // Binding the same rows to the same commitments again changes nothing.
        ServiceError::NotBound { .. }
        | ServiceError::TokenExpired { .. }
        | ServiceError::StaleEpoch { .. } => RetryAction::Rebind,
        error if error.retry_safe() => RetryAction::Retry,
        _ => RetryAction::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_errors_are_retried() {
        let job = || "j".to_owned();
        assert_eq!(classify(&ServiceError::Draining), RetryAction::Retry);
        assert_eq!(
            classify(&ServiceError::Fenced { job: job(), shard: 0, presented: 1, current: 2 }),
            RetryAction::Retry
        );
        assert_eq!(classify(&ServiceError::NotBound { job: job(), branch: 0, row: 1 }), RetryAction::Rebind);
        assert_eq!(
            classify(&ServiceError::AlreadyBound { job: job(), branch: 0, row: 1 }),
            RetryAction::Stop
        );
        assert_eq!(classify(&ServiceError::internal("?")), RetryAction::Stop);
    }
}
