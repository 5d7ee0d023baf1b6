//! What the services do, on domain types. The gRPC adapters are in `grpc`.

mod branches;
mod jobs;
mod noise;
mod shards;
mod workers;
