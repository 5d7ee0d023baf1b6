//! The services on domain types. The gRPC adapters are in `grpc`.

mod branches;
mod budgets;
mod jobs;
mod noise;
mod quotas;
mod reshard;
mod shards;
mod tenants;
mod watermarks;
mod workers;

pub use workers::{Heartbeat, HeartbeatReply};
