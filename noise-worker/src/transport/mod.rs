//! Ways to reach a worker's service. Each is a thin adapter; none holds state.

mod frames;
pub mod grpc;
pub mod lending;
mod refused;
pub mod server;
pub mod slices;
