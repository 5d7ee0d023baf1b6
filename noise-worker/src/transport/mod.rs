//! The ways to reach a worker's service. Each is a thin adapter; none holds state.

mod error_mapping;
mod frames;
pub mod grpc;
pub mod lending;
pub mod listeners;
pub mod server;
pub mod slices;
