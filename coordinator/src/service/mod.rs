//! The services on domain types. The gRPC adapters are in `grpc`.

mod branches;
mod jobs;
mod noise;
mod reshard;
mod shards;
mod watermarks;
mod workers;

pub use workers::Heartbeat;
#[cfg(test)]
pub use workers::HeartbeatReply;
