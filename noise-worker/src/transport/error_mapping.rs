//! What callers are told of a refusal.

use node::{auth::Refusal, guard::Words};
use proto::ServiceError;
use tonic::Status;

pub const WORDS: Words = Words { of: worded, notable: ServiceError::notable_kind };

pub fn worded(refusal: Refusal) -> Status {
    let error = match refusal {
        Refusal::Unauthenticated => ServiceError::Unauthenticated,
        Refusal::Forbidden => ServiceError::PermissionDenied,
        Refusal::Beyond { asked, allowed } => ServiceError::RangeNotAllowed {
            asked: asked.into(),
            allowed: allowed.into_iter().map(Into::into).collect(),
        },
        Refusal::Busy { what, limit } => ServiceError::ResourceExhausted { what: what.into(), limit },
        Refusal::TooLarge { limit } => {
            ServiceError::invalid("request", "larger than that", format!("up to {limit} bytes"))
        }
        Refusal::TooSlow { limit } => {
            ServiceError::Unavailable { what: format!("an answer within {limit:?}") }
        }
    };
    metrics::counter!(crate::metric_definitions::ERRORS, "kind" => error.kind()).increment(1);
    error.into()
}
