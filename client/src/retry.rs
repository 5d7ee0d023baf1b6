//! The action of a fetch after an error.

use std::time::Duration;

use node::net::backoff::Backoff;
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

/// Returns how long to wait before the request that failed with `error` is made again: no shorter than the error asks for.
/// `None` where that is longer than `left`, the time until the fetch gives up: then the error says more than a timeout would.
pub(crate) fn wait_before_retry(
    error: &ServiceError,
    backoff: &mut Backoff,
    left: Duration,
) -> Option<Duration> {
    let wait = backoff.next_delay();
    let ServiceError::QuotaExceeded { retry_after_ms: Some(ms), .. } = error else { return Some(wait) };
    let wait = wait.max(Duration::from_millis(*ms));
    (wait < left).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_waited_for_as_long_as_it_asks_or_not_at_all() {
        let quota = |ms| ServiceError::QuotaExceeded {
            what: "rows".to_owned(),
            limit: "1".to_owned(),
            remedy: "wait".to_owned(),
            retry_after_ms: Some(ms),
        };
        let mut backoff = Backoff::for_calls();
        let minute = Duration::from_secs(60);
        assert_eq!(wait_before_retry(&quota(30_000), &mut backoff, minute), Some(Duration::from_secs(30)));
        assert_eq!(wait_before_retry(&quota(61_000), &mut backoff, minute), None);
        assert!(wait_before_retry(&ServiceError::Draining, &mut backoff, minute).is_some());
    }

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
