//! What `bench coordinator` found, as JSON and as tables.

use comfy_table::Table;
use serde::Serialize;

use super::Args;
use super::latency::{Quantiles, Summary, Times};
use super::process::Pinned;
use crate::output;

/// What a call may take at the ninety-ninth hundredth, in seconds.
const TARGET: f64 = 0.020;

#[derive(Serialize)]
pub struct Report {
    workers: usize,
    jobs: usize,
    shards: u64,
    heartbeat_seconds: f64,
    step_seconds: f64,
    seconds: f64,
    /// The one core of the coordinator, and whether the callers had others.
    core: usize,
    is_alone_on_core: bool,
    heartbeats: Summary,
    bindings: Summary,
    target_p99_seconds: f64,
    is_within_target: bool,
    /// Of its core.
    cpu_share: f64,
    memory: Memory,
    ledger_bytes: u64,
}

/// Resident bytes of the coordinator.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Memory {
    pub started: u64,
    pub with_workers: u64,
    pub with_jobs: u64,
    pub after: u64,
    pub peak: u64,
}

impl Report {
    pub fn of(
        args: &Args,
        coordinator: &Pinned,
        heartbeats: &Times,
        bindings: &Times,
        cpu_share: f64,
        memory: Memory,
    ) -> anyhow::Result<Self> {
        let (heartbeats, bindings) = (heartbeats.summary(args.seconds)?, bindings.summary(args.seconds)?);
        let is_within = |of: &Summary| of.since_due.p99 <= TARGET && of.failed == 0;
        Ok(Self {
            workers: args.workers,
            jobs: args.jobs,
            shards: u64::from(args.shards) * args.jobs as u64,
            heartbeat_seconds: args.heartbeat,
            step_seconds: args.step,
            seconds: args.seconds,
            core: coordinator.core,
            is_alone_on_core: coordinator.is_alone,
            target_p99_seconds: TARGET,
            is_within_target: is_within(&heartbeats) && is_within(&bindings),
            heartbeats,
            bindings,
            cpu_share,
            memory,
            ledger_bytes: coordinator.ledger_bytes()?,
        })
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let Self { workers, jobs, shards, seconds, .. } = self;
        let title = format!("{workers} workers, {jobs} jobs, {shards} shards; {seconds} s; milliseconds");
        vec![(title, self.latencies()), ("The coordinator, on one core".into(), self.costs())]
    }

    fn latencies(&self) -> Table {
        let row = |what: &str, of: &Summary, times: Quantiles| {
            let Quantiles { p50, p90, p99, p999, max } = times;
            let times = [p50, p90, p99, p999, max].map(|time| format!("{:.2}", 1e3 * time));
            let counts = [of.answered.to_string(), of.failed.to_string(), format!("{:.0}", of.per_second)];
            std::iter::once(what.to_owned()).chain(counts).chain(times).collect()
        };
        let rows = [
            row("heartbeats, since due", &self.heartbeats, self.heartbeats.since_due),
            row("heartbeats, since called", &self.heartbeats, self.heartbeats.since_called),
            row("bindings, since due", &self.bindings, self.bindings.since_due),
            row("bindings, since called", &self.bindings, self.bindings.since_called),
        ];
        let header = ["calls", "answered", "failed", "per second", "p50", "p90", "p99", "p99.9", "max"];
        output::table(&header, rows.into_iter())
    }

    fn costs(&self) -> Table {
        let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let Memory { started, with_workers, with_jobs, after, peak } = self.memory;
        let rows = [
            ("its core's time in use, %", format!("{:.1}", 100.0 * self.cpu_share)),
            ("memory when started, MiB", mebibytes(started)),
            ("with all workers, MiB", mebibytes(with_workers)),
            ("with all jobs, MiB", mebibytes(with_jobs)),
            ("after measuring, MiB", mebibytes(after)),
            ("at most, MiB", mebibytes(peak)),
            ("ledger, MiB", mebibytes(self.ledger_bytes)),
            ("both p99 since due within 20 ms", if self.is_within_target { "yes" } else { "no" }.to_owned()),
        ];
        output::table(&["what", "value"], rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]))
    }
}
