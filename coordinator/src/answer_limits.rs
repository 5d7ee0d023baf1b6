//! Limits on the answers that take much memory or time.

use std::sync::Arc;

use node::admission::Budget;
use node::telemetry::rate_limited_log::RateLimitedLog;
use tokio::sync::Semaphore;

/// Bytes of long answers under way to one caller: enough for the longest answers of a few calls at once.
const ANSWER_BYTES: u64 = 64 << 20;
/// Accounts computed at once. Each takes a blocking thread for up to seconds, and binding rows needs the same threads.
const ACCOUNTS_AT_ONCE: usize = 2;
/// Reports that one caller may request at once.
const REPORTS_PER_CALLER: u64 = 4;

/// Limits on the answers that take much memory or time.
pub struct AnswerLimits {
    /// Accounts of privacy computed at once, for all callers together.
    pub accounts: Arc<Semaphore>,
    /// Reports that one caller may request at once.
    pub reports: Budget,
    /// Bytes of long answers under way to one caller.
    pub bytes: Budget,
    /// Jobs that were named as too large for the answer to a heartbeat.
    pub oversized: RateLimitedLog,
}

impl AnswerLimits {
    /// Returns limits of which nothing is used.
    pub fn new() -> Self {
        Self {
            accounts: Arc::new(Semaphore::new(ACCOUNTS_AT_ONCE)),
            reports: Budget::counting("reports for this caller", "at once", REPORTS_PER_CALLER),
            bytes: Budget::new(ANSWER_BYTES),
            oversized: RateLimitedLog::default(),
        }
    }
}
