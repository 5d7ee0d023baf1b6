//! Every metric of the coordinator.

use metrics::{Unit, counter, gauge};
use node::telemetry::metric_definitions::{Kind, MetricDefinition, describe};

/// Rows that were bound for the first time.
pub const ROWS_BOUND: &str = "rustle_coordinator_rows_bound_total";
/// Labels: `kind`, the error's name.
pub const BINDINGS_REFUSED: &str = "rustle_coordinator_bindings_refused_total";
/// Shards that got a new epoch, with another owner or another process of the same.
pub const LEASES_CHANGED: &str = "rustle_coordinator_leases_changed_total";
pub const WORKERS_ALIVE: &str = "rustle_coordinator_workers_alive";
pub const SHARDS_UNREADY: &str = "rustle_coordinator_shards_unready";
pub const CHECKPOINT_SECONDS: &str = "rustle_coordinator_checkpoint_duration_seconds";
pub const CHECKPOINT_BYTES: &str = "rustle_coordinator_checkpoint_bytes";
pub const CHECKPOINT_AGE: &str = "rustle_coordinator_checkpoint_age_seconds";
pub const CHECKPOINT_INTERVAL: &str = "rustle_coordinator_checkpoint_interval_seconds";
pub const CHECKPOINTS_FAILED: &str = "rustle_coordinator_checkpoints_failed_total";
/// The time from a binding's arrival until it is durable, of successful bindings only.
pub const BIND_SECONDS: &str = "rustle_coordinator_bind_duration_seconds";
pub const EPOCH: &str = "rustle_coordinator_epoch";
/// Workers whose lease ended without their leaving.
pub const WORKERS_LOST: &str = "rustle_coordinator_workers_lost_total";
pub const SHARDS: &str = "rustle_coordinator_shards";
/// Labels: `state` (running, finished, destroyed).
pub const JOBS: &str = "rustle_coordinator_jobs";
pub const JOBS_UNWATCHED: &str = "rustle_coordinator_jobs_unwatched";
pub const JOBS_CONTRADICTED: &str = "rustle_coordinator_jobs_contradicted";
/// Labels: `severity` (warning, critical).
pub const PROBLEMS: &str = "rustle_coordinator_problems";
/// Labels: `kind`, the error's name.
pub const ERRORS: &str = "rustle_coordinator_errors_total";

// Metrics of one job, with the label `training_job` (`job` has its own meaning in Prometheus). They are written at the
// scrape from the privacy meter, so that a job's series end with it.
pub const JOB_ROWS_BOUND: &str = "rustle_job_rows_bound";
pub const JOB_ROWS_PLANNED: &str = "rustle_job_rows_planned";
pub const JOB_RHO_SPENT: &str = "rustle_job_privacy_spent_rho";
pub const JOB_RHO_PLANNED: &str = "rustle_job_privacy_planned_rho";
/// Labels: also `delta`, from the setting report_delta.
pub const JOB_EPSILON_SPENT: &str = "rustle_job_privacy_spent_epsilon";
pub const JOB_EPSILON_PLANNED: &str = "rustle_job_privacy_planned_epsilon";
/// Of jobs of an adopted ledger alone.
pub const JOB_ADOPTED: &str = "rustle_job_adopted";

// Metrics of one data set, with the labels `data_set` and `delta`, which is the budget's. They are written at the scrape from
// the budget meter.
pub const DATA_SET_EPSILON_BUDGET: &str = "rustle_data_set_privacy_budget_epsilon";
pub const DATA_SET_EPSILON_SPENT: &str = "rustle_data_set_privacy_spent_epsilon";
pub const DATA_SET_EPSILON_RESERVED: &str = "rustle_data_set_privacy_reserved_epsilon";
pub const DATA_SET_EPSILON_LEFT: &str = "rustle_data_set_privacy_left_epsilon";
// Of data sets with blocks alone, of which there may be many.
pub const DATA_SET_BLOCKS: &str = "rustle_data_set_blocks";
pub const DATA_SET_BLOCKS_USED_UP: &str = "rustle_data_set_blocks_used_up";
pub const DATA_SET_FULLEST_BLOCK: &str = "rustle_data_set_fullest_block_used_ratio";

const fn metric(name: &'static str, kind: Kind, unit: Unit, description: &'static str) -> MetricDefinition {
    MetricDefinition { name, kind, unit, description }
}

/// The coordinator's metrics apart from those of single jobs.
pub const DEFINITIONS: &[MetricDefinition] = &[
    metric(ROWS_BOUND, Kind::Counter, Unit::Count, "Rows bound to a commitment"),
    metric(BINDINGS_REFUSED, Kind::Counter, Unit::Count, "Bindings refused, by `kind` of error"),
    metric(
        LEASES_CHANGED,
        Kind::Counter,
        Unit::Count,
        "Shards assigned to another worker or process, or withdrawn",
    ),
    metric(WORKERS_ALIVE, Kind::Gauge, Unit::Count, "Workers whose lease has not ended"),
    metric(
        SHARDS_UNREADY,
        Kind::Gauge,
        Unit::Count,
        "Shards that no live worker serves now: its owner is gone, or not ready",
    ),
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
    metric(CHECKPOINTS_FAILED, Kind::Counter, Unit::Count, "Checkpoints that were begun and failed"),
    metric(
        BIND_SECONDS,
        Kind::Histogram,
        Unit::Seconds,
        "Time from a binding's arrival to its being durable in the ledger",
    ),
    metric(
        EPOCH,
        Kind::Gauge,
        Unit::Count,
        "Epoch of this coordinator: rises with every start on the same ledger",
    ),
    metric(
        WORKERS_LOST,
        Kind::Counter,
        Unit::Count,
        "Workers that sent no heartbeat for the time of a lease",
    ),
    metric(SHARDS, Kind::Gauge, Unit::Count, "Shards of running and finished jobs, served or not"),
    metric(
        JOBS,
        Kind::Gauge,
        Unit::Count,
        "Jobs in the ledger, by `state`: `running`, `finished`, `destroyed`",
    ),
    metric(
        JOBS_UNWATCHED,
        Kind::Gauge,
        Unit::Count,
        "Jobs beyond the 100 that have `rustle_job_` series and a place on the status page",
    ),
    metric(
        JOBS_CONTRADICTED,
        Kind::Gauge,
        Unit::Count,
        "Jobs for which nothing is bound because a worker holds proof that the ledger is an old copy",
    ),
    metric(
        PROBLEMS,
        Kind::Gauge,
        Unit::Count,
        "Problems that `rustle status` lists, by `severity`: `warning`, `critical`",
    ),
    metric(ERRORS, Kind::Counter, Unit::Count, "Errors sent to callers, by `kind`"),
];

/// The metrics of single jobs, labelled by `training_job`, for at most 100 jobs.
pub const JOB_DEFINITIONS: &[MetricDefinition] = &[
    metric(JOB_ROWS_BOUND, Kind::Gauge, Unit::Count, "Rows of the job that are bound, by `training_job`"),
    metric(JOB_ROWS_PLANNED, Kind::Gauge, Unit::Count, "Rows of the job's plan, by `training_job`"),
    metric(
        JOB_RHO_SPENT,
        Kind::Gauge,
        Unit::Count,
        "ρ of zCDP of the rows bound so far, rounded up to a hundredth of the run, by `training_job`",
    ),
    metric(JOB_RHO_PLANNED, Kind::Gauge, Unit::Count, "ρ of zCDP of all rows of the plan, by `training_job`"),
    metric(
        JOB_EPSILON_SPENT,
        Kind::Gauge,
        Unit::Count,
        "ε at `delta` of the rows bound so far, rounded up to a hundredth of the run, by `training_job`",
    ),
    metric(
        JOB_EPSILON_PLANNED,
        Kind::Gauge,
        Unit::Count,
        "ε at `delta` of all rows of the plan, by `training_job`",
    ),
    metric(
        JOB_ADOPTED,
        Kind::Gauge,
        Unit::Count,
        "1 where the job's ledger was adopted, else 0: its ρ and ε count rows that another copy may have released, by `training_job`",
    ),
];

/// The metrics of single data sets, labelled by `data_set` and `delta`.
pub const DATA_SET_DEFINITIONS: &[MetricDefinition] = &[
    metric(
        DATA_SET_EPSILON_BUDGET,
        Kind::Gauge,
        Unit::Count,
        "ε of the budget, by `data_set`, at its `delta`",
    ),
    metric(
        DATA_SET_EPSILON_SPENT,
        Kind::Gauge,
        Unit::Count,
        "ε of the charges of all jobs that have bound a row, composed, by `data_set`",
    ),
    metric(
        DATA_SET_EPSILON_RESERVED,
        Kind::Gauge,
        Unit::Count,
        "Growth of that ε by the charges of jobs that have bound no row, by `data_set`",
    ),
    metric(DATA_SET_EPSILON_LEFT, Kind::Gauge, Unit::Count, "ε that the budget still holds, by `data_set`"),
    metric(DATA_SET_BLOCKS, Kind::Gauge, Unit::Count, "Blocks, by `data_set`, where it has some"),
    metric(
        DATA_SET_BLOCKS_USED_UP,
        Kind::Gauge,
        Unit::Count,
        "Blocks of whose own budget less than 0.1 % is left, by `data_set`",
    ),
    metric(
        DATA_SET_FULLEST_BLOCK,
        Kind::Gauge,
        Unit::Count,
        "Largest part of a block's own budget that is spent or reserved, 0 to 1, by `data_set`",
    ),
];

/// The kinds of refused bindings that are exposed from the start, so that a first one is an increase.
const REFUSALS: [&str; 4] = ["already_bound", "job_state", "not_found", "row_beyond_iterations"];

/// Registers every metric. Call after the recorder is installed.
pub fn describe_metrics() {
    describe(DEFINITIONS);
    for name in [ROWS_BOUND, LEASES_CHANGED, WORKERS_LOST, CHECKPOINTS_FAILED] {
        counter!(name).increment(0);
    }
    gauge!(JOBS_CONTRADICTED).set(0.0);
    for kind in REFUSALS {
        counter!(BINDINGS_REFUSED, "kind" => kind).increment(0);
        counter!(ERRORS, "kind" => kind).increment(0);
    }
    counter!(ERRORS, "kind" => "budget_exceeded").increment(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_metrics_follow_the_grammar() {
        let violations: Vec<_> = DEFINITIONS
            .iter()
            .chain(JOB_DEFINITIONS)
            .chain(DATA_SET_DEFINITIONS)
            .filter_map(node::telemetry::metric_definitions::grammar_violation)
            .collect();
        assert!(violations.is_empty(), "{violations:?}");
    }
}
