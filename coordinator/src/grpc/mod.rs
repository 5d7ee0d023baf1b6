//! gRPC adapters: they check what comes in, call the service, and count what is refused.

mod jobs;
mod noise;
mod server;
mod workers;

use metrics::counter;
use proto::{Result, ServiceError};
use tonic::{Response, Status};

use crate::metric_definitions::ERRORS;

pub use server::{serve, serve_over};

fn answer<T>(outcome: Result<T>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(refused)
}

fn refused(error: ServiceError) -> Status {
    counter!(ERRORS, "kind" => error.kind()).increment(1);
    error.into()
}
