//! Every metric of the coordinator.

use metrics::Unit;
use node::metric_definitions::{Kind, MetricDefinition, describe};

/// Rows that were bound for the first time.
pub const ROWS_BOUND: &str = "rustle_coordinator_rows_bound_total";
/// Labels: `kind`, the error's name.
pub const BINDINGS_REFUSED: &str = "rustle_coordinator_bindings_refused_total";
/// Shards that got a new epoch, with another owner or another process of the same.
pub const LEASES_CHANGED: &str = "rustle_coordinator_leases_changed_total";
pub const WORKERS_ALIVE: &str = "rustle_coordinator_workers_alive";
pub const SHARDS_UNREADY: &str = "rustle_coordinator_shards_unready";
pub const CHECKPOINT_SECONDS: &str = "rustle_coordinator_checkpoint_seconds";
pub const CHECKPOINT_BYTES: &str = "rustle_coordinator_checkpoint_bytes";
pub const CHECKPOINT_AGE: &str = "rustle_coordinator_checkpoint_age_seconds";
pub const CHECKPOINT_INTERVAL: &str = "rustle_coordinator_checkpoint_interval_seconds";
pub const CHECKPOINTS_FAILED: &str = "rustle_coordinator_checkpoints_failed_total";
/// Labels: `kind`, the error's name.
pub const ERRORS: &str = "rustle_coordinator_errors_total";

const fn metric(name: &'static str, kind: Kind, unit: Unit, description: &'static str) -> MetricDefinition {
    MetricDefinition { name, kind, unit, description }
}

pub const DEFINITIONS: &[MetricDefinition] = &[
    metric(ROWS_BOUND, Kind::Counter, Unit::Count, "Rows bound to a commitment"),
    metric(BINDINGS_REFUSED, Kind::Counter, Unit::Count, "Bindings refused, by kind of error"),
    metric(LEASES_CHANGED, Kind::Counter, Unit::Count, "Shards given to another worker or process, or taken"),
    metric(WORKERS_ALIVE, Kind::Gauge, Unit::Count, "Workers whose lease has not ended"),
    metric(SHARDS_UNREADY, Kind::Gauge, Unit::Count, "Shards of jobs that no worker serves now"),
    metric(CHECKPOINT_SECONDS, Kind::Histogram, Unit::Seconds, "Time that a whole checkpoint of a job took"),
    metric(CHECKPOINT_BYTES, Kind::Gauge, Unit::Bytes, "Size of the last checkpoint written"),
    metric(
        CHECKPOINT_AGE,
        Kind::Gauge,
        Unit::Seconds,
        "Age of the newest checkpoint of the running job that has waited longest",
    ),
    metric(
        CHECKPOINT_INTERVAL,
        Kind::Gauge,
        Unit::Seconds,
        "Time to the next checkpoint of the job that was last written; 0 for none",
    ),
    metric(CHECKPOINTS_FAILED, Kind::Counter, Unit::Count, "Checkpoints that were begun and came to nothing"),
    metric(ERRORS, Kind::Counter, Unit::Count, "Errors sent to callers, by kind"),
];

/// Call after the recorder is installed.
pub fn describe_metrics() {
    describe(DEFINITIONS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_metrics_follow_the_grammar() {
        let violations: Vec<_> =
            DEFINITIONS.iter().filter_map(node::metric_definitions::grammar_violation).collect();
        assert!(violations.is_empty(), "{violations:?}");
    }
}
