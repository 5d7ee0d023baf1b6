//! The task that looks at health, and the problems that there are now.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::gauge;
use node::process::disk::DiskSpace;
use node::tls::Credentials;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::coordinator::Coordinator;
use crate::health::{
    Conditions, Problem, Severity, not_renewed, problem_of_audit_log, problems_of_cluster,
    problems_of_machine,
};
#[cfg(feature = "etcd")]
use crate::known_leader::LeaderView;
use crate::metric_definitions::PROBLEMS;
#[cfg(feature = "etcd")]
use crate::metric_definitions::{SHARDS, SHARDS_UNREADY, WORKERS_ALIVE};

/// The time between two looks at the disk, the certificate and the problems.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

impl Coordinator {
    /// Returns what is wrong now, worst first. Each problem keeps its first date while it lasts.
    pub fn problems(&self) -> Vec<Problem> {
        let now = Instant::now();
        let mut problems = {
            let cluster = self.cluster();
            problems_of_cluster(&cluster, now)
        };
        problems.extend(problems_of_machine(&self.health().conditions(), SystemTime::now()));
        problems.extend(self.anchor_trouble().as_ref().map(not_renewed));
        problems.extend(self.audit_faults().map(problem_of_audit_log));
        self.health().date(now, &mut problems);
        problems.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.since.cmp(&b.since)));
        problems
    }

    /// Looks at disk, certificate and problems until shutdown.
    pub async fn keep_watching_health(
        self: Arc<Self>,
        credentials: Option<Credentials>,
        shutdown: CancellationToken,
    ) {
        let mut ticks = interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let folder = self.settings().data_dir.clone();
            // On a blocking thread, which a file system that hangs holds up alone.
            let watched = self.clone();
            let disk = node::process::blocking::run(move || {
                watched.look_at_anchor();
                DiskSpace::of(&folder)
            });
            let disk = tokio::select! {
                () = shutdown.cancelled() => return,
                disk = disk => disk,
            };
            let disk = disk.ok().and_then(Result::ok);
            let certificate_ends = credentials.as_ref().and_then(Credentials::ends);
            self.health().set_conditions(Conditions { disk, certificate_ends });
            record_problems(&self.problems());
        }
    }
}

/// Sets the gauge of problems.
fn record_problems(problems: &[Problem]) {
    for severity in [Severity::Warning, Severity::Critical] {
        let count = problems.iter().filter(|problem| problem.severity == severity).count();
        gauge!(PROBLEMS, "severity" => severity.as_str()).set(count as f64);
    }
}

/// Sets the gauges of a coordinator that stands by: what it counted while it led is another one's now.
#[cfg(feature = "etcd")]
pub fn record_standing_by(view: &LeaderView) {
    record_problems(&crate::health::problems_standing_by(view));
    for name in [SHARDS, SHARDS_UNREADY, WORKERS_ALIVE] {
        gauge!(name).set(0.0);
    }
}
