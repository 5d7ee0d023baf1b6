//! gRPC adapters: they check what comes in, call the service, and count what is refused.

mod admitted;
mod jobs;
mod noise;
mod server;
#[cfg(feature = "etcd")]
mod standby;
mod workers;

use metrics::counter;
use node::admission::{ErrorMapping, in_flight};
use node::auth::Refusal;
use node::net::leader_channel::LEADER_HEADER;
use node::telemetry::trace_context::carry;
use proto::{Result, ServiceError};
use tonic::metadata::MetadataValue;
use tonic::{Response, Status};

use crate::metric_definitions::ERRORS;

pub use server::{serve, serve_over};
#[cfg(feature = "etcd")]
pub use standby::{Door, Leader, serve_standby};
#[cfg(test)]
pub use {jobs::JobsService, noise::NoiseService};

fn answer<T>(outcome: Result<T>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(refused)
}

/// A change is made in the ledger and then in memory, which must not part, and what is prepared for one is given up by
/// whoever waits for it: it goes on to its end where its caller has left, or has been cut off.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<Response<T>, Status> {
    let held = in_flight();
    let whole = async move {
        let _held = held;
        change.await
    };
    let ended = tokio::spawn(carry(whole)).await;
    answer(ended.unwrap_or_else(|panicked| Err(ServiceError::internal(panicked))))
}

/// What callers are told of a refusal.
fn worded(refusal: Refusal) -> Status {
    refused(match refusal {
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
    })
}

/// How this process words the refusals of [`node::admission`].
#[derive(Clone, Copy)]
struct Errors;

impl ErrorMapping for Errors {
    fn status(&self, refusal: Refusal) -> Status {
        worded(refusal)
    }

    fn notable(&self, status: &Status) -> Option<String> {
        ServiceError::notable_kind(status)
    }
}

fn refused(error: ServiceError) -> Status {
    counter!(ERRORS, "kind" => error.kind()).increment(1);
    let leader = match &error {
        ServiceError::NotLeader { leader } => Some(leader.parse().unwrap_or(MetadataValue::from_static(""))),
        _ => None,
    };
    let mut status = Status::from(error);
    // For clients that follow, who need not know our errors.
    leader.map(|leader| status.metadata_mut().insert(LEADER_HEADER, leader));
    status
}
