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
    let error = ServiceError::from(refusal);
    metrics::counter!(crate::metric_definitions::ERRORS, "kind" => error.kind()).increment(1);
    error.into()
}
