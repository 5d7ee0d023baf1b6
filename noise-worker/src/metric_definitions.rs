//! Every metric of the worker: name, unit, meaning. Labels: `job` is never one, ids are unbounded.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Rows × coordinates made, whether or not they are ever released.
pub const VALUES_GENERATED: &str = "rustle_worker_values_generated_total";
/// Time of one call into the kernel.
pub const GENERATE_SECONDS: &str = "rustle_worker_generate_duration_seconds";
/// How long a request waited for a row; 0 where it was made ahead.
pub const ROW_WAIT_SECONDS: &str = "rustle_worker_row_wait_seconds";
pub const BYTES_SERVED: &str = "rustle_worker_served_bytes_total";
/// Bytes written to shared memory instead.
pub const BYTES_PLACED: &str = "rustle_worker_placed_bytes_total";
/// Rows drawn again from the key because they had left the window.
pub const ROWS_REPLAYED: &str = "rustle_worker_replayed_rows_total";
pub const SHARDS: &str = "rustle_worker_shards";
pub const STATE_BYTES: &str = "rustle_worker_state_bytes";
pub const AHEAD_BYTES: &str = "rustle_worker_ahead_bytes";
pub const RESIDENT_BYTES: &str = "rustle_worker_resident_bytes";
/// Label `kind`: the names of proto::ServiceError.
pub const ERRORS: &str = "rustle_worker_errors_total";
pub const SNAPSHOT_SECONDS: &str = "rustle_worker_snapshot_duration_seconds";
/// The part of it in which no rows of the shard could be made.
pub const SNAPSHOT_HELD_SECONDS: &str = "rustle_worker_snapshot_held_seconds";
/// Stored shards that were of no use to restore from.
pub const CHECKPOINTS_REFUSED: &str = "rustle_worker_checkpoints_refused_total";

pub fn describe_metrics() {
    describe_counter!(VALUES_GENERATED, Unit::Count, "noise values generated, released or not");
    describe_histogram!(GENERATE_SECONDS, Unit::Seconds, "time of one batch of rows of one shard");
    describe_histogram!(ROW_WAIT_SECONDS, Unit::Seconds, "time a request waited for a row to be made");
    describe_counter!(BYTES_SERVED, Unit::Bytes, "noise bytes handed to the transport");
    describe_counter!(BYTES_PLACED, Unit::Bytes, "noise bytes written to shared memory");
    describe_counter!(ROWS_REPLAYED, Unit::Count, "rows drawn again from the key");
    describe_gauge!(SHARDS, Unit::Count, "shards held");
    describe_gauge!(STATE_BYTES, Unit::Bytes, "noise state of the shards held");
    describe_gauge!(AHEAD_BYTES, Unit::Bytes, "rows made and kept");
    describe_gauge!(RESIDENT_BYTES, Unit::Bytes, "resident memory of the process");
    describe_counter!(ERRORS, Unit::Count, "requests refused or failed, by kind");
    describe_histogram!(SNAPSHOT_SECONDS, Unit::Seconds, "time to write one shard's state to the store");
    describe_histogram!(SNAPSHOT_HELD_SECONDS, Unit::Seconds, "time a snapshot kept rows from being made");
    describe_counter!(
        CHECKPOINTS_REFUSED,
        Unit::Count,
        "checkpoints that were damaged, missing or another's"
    );
}
