//! Maps refusals of the admission layer to statuses.

use node::{admission::ErrorMapping, auth::Refusal};
use proto::ServiceError;
use tonic::Status;

/// The statuses with which the worker answers refusals of [`node::admission`].
#[derive(Clone, Copy)]
pub struct Errors;

impl ErrorMapping for Errors {
    fn status(&self, refusal: Refusal) -> Status {
        refusal_to_status(refusal)
    }

    fn notable(&self, status: &Status) -> Option<String> {
        ServiceError::notable_kind(status)
    }
}

/// Returns the status of a refusal, and counts it.
pub fn refusal_to_status(refusal: Refusal) -> Status {
    let error = match refusal {
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
    };
    metrics::counter!(crate::metric_definitions::ERRORS, "kind" => error.kind()).increment(1);
    error.into()
}
