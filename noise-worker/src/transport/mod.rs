//! Ways to reach a worker's service. Each is a thin adapter; none holds state.

pub mod grpc;
