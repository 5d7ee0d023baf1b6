//! gRPC adapters: they authorise and check requests, call the service, and count errors.

mod authorize;
mod budgets;
mod granted;
mod jobs;
mod noise;
mod server;
#[cfg(feature = "etcd")]
mod standby;
mod workers;

use metrics::counter;
use node::admission::{ErrorMapping, in_flight};
use node::auth::{Refusal, carry_caller};
use node::net::leader_channel::LEADER_HEADER;
use node::telemetry::trace_context::carry;
use proto::{Result, ServiceError};
use tonic::metadata::MetadataValue;
use tonic::{Response, Status};

use crate::metric_definitions::ERRORS;

pub use server::{serve, serve_over};
#[cfg(feature = "etcd")]
pub use standby::{ListenerHandoff, serve_standby};
#[cfg(test)]
pub use {jobs::JobsService, noise::NoiseService};

fn answer<T>(outcome: Result<T>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(error_to_status)
}

/// Runs a change in its own task, to completion even if the caller disconnects. The ledger and memory must change
/// together.
async fn run_detached<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<Response<T>, Status> {
    let held = in_flight();
    let whole = async move {
        let _held = held;
        change.await
    };
    let ended = tokio::spawn(carry(carry_caller(whole))).await;
    answer(ended.unwrap_or_else(|panicked| Err(ServiceError::internal(panicked))))
}

/// Counts a refusal and converts it to the status that callers get.
fn refusal_to_status(refusal: Refusal) -> Status {
    error_to_status(refusal.into())
}

/// The statuses with which the coordinator answers refusals of [`node::admission`].
#[derive(Clone, Copy)]
struct Errors;

impl ErrorMapping for Errors {
    fn status(&self, refusal: Refusal) -> Status {
        refusal_to_status(refusal)
    }

    fn notable(&self, status: &Status) -> Option<String> {
        ServiceError::notable_kind(status)
    }
}

/// Counts an error and converts it to the status that callers get.
fn error_to_status(error: ServiceError) -> Status {
    counter!(ERRORS, "kind" => error.kind()).increment(1);
    let leader = match &error {
        ServiceError::NotLeader { leader } => Some(leader.parse().unwrap_or(MetadataValue::from_static(""))),
        _ => None,
    };
    let mut status = Status::from(error);
    // For clients that look for the leader and need not know our errors.
    leader.map(|leader| status.metadata_mut().insert(LEADER_HEADER, leader));
    status
}
