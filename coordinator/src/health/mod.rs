//! Whether the cluster is healthy: what is wrong, since when, and what to do next. `/status`, the status page, the metrics
//! and `rustle status` all show it from here.

mod audit;
mod monitor;
mod problem;
mod problems;
#[cfg(any(feature = "etcd", test))]
mod standing_by;

use serde_json::{Value, json};
use tokio::time::Instant;

pub use audit::problem_of_audit_log;
pub use monitor::{Conditions, HealthMonitor};
pub use problem::{Problem, Severity, wall_time};
pub use problems::{not_renewed, problems_of_cluster, problems_of_machine};
#[cfg(feature = "etcd")]
pub use standing_by::problems_standing_by;
#[cfg(any(feature = "etcd", test))]
pub use standing_by::{obstacle, status_standing_by};

/// Returns whether no problem is critical.
pub fn is_healthy(problems: &[Problem]) -> bool {
    problems.iter().all(|problem| problem.severity != Severity::Critical)
}

/// Returns the fields `healthy` and `problems` of a status.
pub fn fields(problems: &[Problem]) -> Value {
    let now = Instant::now();
    json!({
        "healthy": is_healthy(problems),
        "problems": problems.iter().map(|problem| problem.to_json(now)).collect::<Vec<_>>(),
    })
}
