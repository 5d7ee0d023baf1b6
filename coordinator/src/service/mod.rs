//! What the services do, on domain types. The gRPC adapters are in `grpc`.

mod jobs;
mod noise;
mod shards;
mod workers;
