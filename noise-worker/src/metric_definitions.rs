//! Every metric of the worker: name, unit, meaning. `job` is never a label: ids are unbounded.

use metrics::{Unit, counter};
use node::telemetry::metric_definitions::{Kind, MetricDefinition, describe};

/// Rows × coordinates made, whether or not they are ever released.
pub const VALUES_GENERATED: &str = "rustle_worker_values_generated_total";
/// Time of one call into the kernel.
pub const GENERATE_SECONDS: &str = "rustle_worker_generate_duration_seconds";
/// Label `how`: "ahead" (0 wait), "waited", "replayed" (drawn again from the key).
pub const ROW_WAIT_SECONDS: &str = "rustle_worker_row_wait_seconds";
pub const ROWS_SERVED: &str = "rustle_worker_served_rows_total";
pub const BYTES_SERVED: &str = "rustle_worker_served_bytes_total";
/// Bytes written to shared memory instead.
pub const BYTES_PLACED: &str = "rustle_worker_placed_bytes_total";
/// Rows drawn again from the key because they had left the window.
pub const ROWS_REPLAYED: &str = "rustle_worker_replayed_rows_total";
/// Label `state`: "restoring", "ready", "failed".
pub const SHARDS: &str = "rustle_worker_shards";
pub const STATE_BYTES: &str = "rustle_worker_state_bytes";
pub const AHEAD_BYTES: &str = "rustle_worker_ahead_bytes";
pub const AHEAD_ROWS: &str = "rustle_worker_ahead_rows";
pub const BEHIND_ROWS: &str = "rustle_worker_behind_rows";
pub const LEASES_TAKEN: &str = "rustle_worker_leases_taken_total";
pub const LEASES_LOST: &str = "rustle_worker_leases_lost_total";
pub const LEASE_EPOCH: &str = "rustle_worker_lease_epoch";
/// Label `kind`: the names of proto::ServiceError.
pub const ERRORS: &str = "rustle_worker_errors_total";
pub const SNAPSHOT_SECONDS: &str = "rustle_worker_snapshot_duration_seconds";
/// The part of it in which no rows of the shard could be made.
pub const SNAPSHOT_HELD_SECONDS: &str = "rustle_worker_snapshot_held_seconds";
/// Stored shards that were of no use to restore from.
pub const CHECKPOINTS_REFUSED: &str = "rustle_worker_checkpoints_refused_total";
/// Times that rows made again had other bits.
pub const WRONG_ROWS: &str = "rustle_worker_wrong_rows_total";

const fn metric(name: &'static str, kind: Kind, unit: Unit, description: &'static str) -> MetricDefinition {
    MetricDefinition { name, kind, unit, description }
}

/// The definitions of all metrics of a worker.
pub const DEFINITIONS: &[MetricDefinition] = &[
    metric(VALUES_GENERATED, Kind::Counter, Unit::Count, "Noise values generated, released or not"),
    metric(GENERATE_SECONDS, Kind::Histogram, Unit::Seconds, "Time to make one batch of rows of one shard"),
    metric(
        ROW_WAIT_SECONDS,
        Kind::Histogram,
        Unit::Seconds,
        "Time a request waited for a row of a shard, by `how` it came: `ahead` (was made), `waited` (was being made), \
         `replayed` (had left the window and was drawn again)",
    ),
    metric(
        ROWS_SERVED,
        Kind::Counter,
        Unit::Count,
        "Rows of shards handed out whole; a row of a job counts once a shard",
    ),
    metric(BYTES_SERVED, Kind::Counter, Unit::Bytes, "Noise bytes handed to the transport"),
    metric(BYTES_PLACED, Kind::Counter, Unit::Bytes, "Noise bytes written to shared memory"),
    metric(
        ROWS_REPLAYED,
        Kind::Counter,
        Unit::Count,
        "Rows drawn again from the key for requests behind the window",
    ),
    metric(SHARDS, Kind::Gauge, Unit::Count, "Shards held, by `state`: `restoring`, `ready`, `failed`"),
    metric(STATE_BYTES, Kind::Gauge, Unit::Bytes, "Noise state of the shards held, past normals included"),
    metric(AHEAD_BYTES, Kind::Gauge, Unit::Bytes, "Rows made and kept, and memory kept for others"),
    metric(
        AHEAD_ROWS,
        Kind::Gauge,
        Unit::Count,
        "Rows made and not yet asked for, of the shard that has fewest",
    ),
    metric(
        BEHIND_ROWS,
        Kind::Gauge,
        Unit::Count,
        "Rows that the shard furthest behind must still go through to where its job stands; falls to 0 during a replay",
    ),
    metric(LEASES_TAKEN, Kind::Counter, Unit::Count, "Shards that this worker was given"),
    metric(LEASES_LOST, Kind::Counter, Unit::Count, "Shards that the coordinator took from this worker"),
    metric(LEASE_EPOCH, Kind::Gauge, Unit::Count, "Highest epoch of the leases held; 0 without any"),
    metric(ERRORS, Kind::Counter, Unit::Count, "Requests refused or failed, by `kind` of error"),
    metric(SNAPSHOT_SECONDS, Kind::Histogram, Unit::Seconds, "Time to write one shard's state to the store"),
    metric(
        SNAPSHOT_HELD_SECONDS,
        Kind::Histogram,
        Unit::Seconds,
        "The part of it in which no rows of the shard could be made",
    ),
    metric(
        CHECKPOINTS_REFUSED,
        Kind::Counter,
        Unit::Count,
        "Stored shards that could not be restored from: damaged, missing, of another job, or in a store that stayed out of reach",
    ),
    metric(
        WRONG_ROWS,
        Kind::Counter,
        Unit::Count,
        "Rows found wrong when a sample of them was made again; after the first the worker releases nothing",
    ),
];

/// Kinds of errors that are there from the start: a first one is then an increase.
const REFUSALS: [&str; 4] = ["fenced", "invalid_argument", "not_owner", "range_unavailable"];

/// Describes the metrics to the recorder, which must be installed.
pub fn describe_metrics() {
    describe(DEFINITIONS);
    let counters = [
        VALUES_GENERATED,
        ROWS_SERVED,
        BYTES_SERVED,
        BYTES_PLACED,
        ROWS_REPLAYED,
        LEASES_TAKEN,
        LEASES_LOST,
        CHECKPOINTS_REFUSED,
        WRONG_ROWS,
    ];
    counters.into_iter().for_each(|name| counter!(name).increment(0));
    REFUSALS.into_iter().for_each(|kind| counter!(ERRORS, "kind" => kind).increment(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_metrics_follow_the_grammar() {
        let violations: Vec<_> =
            DEFINITIONS.iter().filter_map(node::telemetry::metric_definitions::grammar_violation).collect();
        assert!(violations.is_empty(), "{violations:?}");
    }
}
