//! Refused calls: why, and how they are counted and logged.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use metrics::counter;
use proto::ServiceError;
use tracing::warn;

use crate::telemetry::metric_definitions::CALLS_REFUSED;
use crate::telemetry::rate_limited_log::RateLimitedLog;

/// The reason why a call is not handled. Callers learn this much and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The caller shows no credentials, or none that count.
    Unauthenticated,
    /// The caller is known and may not make this call.
    Forbidden,
    /// The caller may fetch other coordinates of the job only.
    OutsideRange {
        /// The coordinates of the request.
        requested: Range<u64>,
        /// The coordinates that the caller may fetch.
        allowed: Vec<Range<u64>>,
    },
    /// Too much is in use at once; the call may be repeated later.
    Busy {
        /// The resource that is in use.
        what: &'static str,
        /// The resource's limit, with its unit.
        limit: String,
    },
    /// The request message is too large.
    TooLarge {
        /// Longest message of this call, in bytes.
        limit: usize,
    },
    /// The answer did not begin in time.
    TooSlow {
        /// Longest time until the answer of this call begins.
        limit: std::time::Duration,
    },
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unauthenticated => ServiceError::Unauthenticated,
            Refusal::Forbidden => ServiceError::PermissionDenied,
            Refusal::OutsideRange { requested, allowed } => ServiceError::RangeNotAllowed {
                asked: requested.into(),
                allowed: allowed.into_iter().map(Into::into).collect(),
            },
            Refusal::Busy { what, limit } => ServiceError::ResourceExhausted { what: what.into(), limit },
            Refusal::TooLarge { limit } => {
                ServiceError::invalid("request", "larger than that", format!("up to {limit} bytes"))
            }
            Refusal::TooSlow { limit } => {
                ServiceError::Unavailable { what: format!("an answer within {limit:?}") }
            }
        }
    }
}

/// A name that identifies a caller, for limits on each caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(pub Arc<str>);

/// Counts every refusal, and logs each caller once a minute.
#[derive(Clone, Debug, Default)]
pub(super) struct RefusalLog(Arc<RateLimitedLog>);

impl RefusalLog {
    pub fn unauthenticated(&self, address: Option<IpAddr>) {
        counter!(CALLS_REFUSED, "reason" => "unauthenticated").increment(1);
        let peer = address.map_or_else(|| "local".to_owned(), |address| address.to_string());
        if self.0.is_due(&peer) {
            warn!(peer, "a caller showed nothing that counts");
        }
    }

    /// Records that `caller` was refused `what`, which must not be text of the caller's own.
    pub fn forbidden(&self, caller: &ClientKey, what: &'static str) {
        counter!(CALLS_REFUSED, "reason" => "forbidden").increment(1);
        if self.0.is_due(&caller.0) {
            warn!(peer = %caller.0, what, "a caller was refused what it may not have");
        }
    }
}
