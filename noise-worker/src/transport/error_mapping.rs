//! Maps refusals of the admission layer to statuses.

use node::{auth::Refusal, guard::Words};
use proto::ServiceError;
use tonic::Status;

/// How the admission layer answers refusals.
pub const ERROR_MAPPING: Words = Words { of: refusal_to_status, notable: ServiceError::notable_kind };

/// Returns the status of a refusal, and counts it.
pub fn refusal_to_status(refusal: Refusal) -> Status {
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
