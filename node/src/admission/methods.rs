//! What one call may send, and how long its handler may take to begin its answer.

use std::time::Duration;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Control is small. A plan may hold a matrix; 65,536 rows at once need their commitments or tokens; a worker may
/// hold thousands of shards, and have rows of thousands of jobs in its record.
pub fn request_bytes(path: &str) -> usize {
    match path {
        "/rustle.v1.Jobs/CreateJob" => 16 * MIB,
        "/rustle.v1.Noise/Bind" | "/rustle.v1.Noise/Fetch" => 4 * MIB,
        "/rustle.v1.Shards/FetchSlice" => 8 * MIB,
        "/rustle.v1.Workers/Register" | "/rustle.v1.Workers/Heartbeat" => 4 * MIB,
        _ => 64 * KIB,
    }
}

/// Whether calls go on for as long as their caller likes.
pub fn is_endless(path: &str) -> bool {
    path == "/grpc.health.v1.Health/Watch" || path.starts_with("/grpc.reflection.")
}

/// A stream that has begun may take as long as it needs. What writes checkpoints of a whole vector takes long.
pub fn time(path: &str) -> Duration {
    match path {
        "/rustle.v1.Jobs/CheckpointJob"
        | "/rustle.v1.Jobs/FinishJob"
        | "/rustle.v1.Jobs/ReshardJob"
        | "/rustle.v1.Shards/Snapshot" => Duration::from_secs(3600),
        "/rustle.v1.Jobs/CreateJob" | "/rustle.v1.Jobs/DestroyJob" => Duration::from_secs(300),
        "/rustle.v1.Jobs/GetReport" => Duration::from_secs(300),
        _ => Duration::from_secs(30),
    }
}
