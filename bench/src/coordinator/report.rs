//! What `bench coordinator` found, as JSON and as tables.

use comfy_table::Table;
use serde::Serialize;

use super::Args;
use super::etcd::EtcdUsage;
use super::latency::{Quantiles, Summary};
use super::process::Cores;
use super::store::Store;
use crate::output;

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
    /// One after the other.
    ledgers: Vec<Measured>,
}

/// A coordinator with its ledger in one store.
#[derive(Serialize)]
pub struct Measured {
    ledger: String,
    heartbeats: Summary,
    bindings: Summary,
    target_p99_seconds: f64,
    is_within_target: bool,
    /// Of its core.
    cpu_share: f64,
    memory: Memory,
    /// On disk; nothing of an etcd that ran before.
    ledger_bytes: Option<u64>,
    /// Of an etcd of its own, which is not on the coordinator's core.
    etcd: Option<EtcdUsage>,
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

impl Measured {
    pub fn of(
        store: &Store,
        heartbeats: Summary,
        bindings: Summary,
        cpu_share: f64,
        memory: Memory,
        ledger_bytes: Option<u64>,
        etcd: Option<EtcdUsage>,
    ) -> Self {
        let target = store.target();
        let is_within = |of: &Summary| of.since_due.p99 <= target && of.failed == 0;
        Self {
            ledger: store.name().to_owned(),
            target_p99_seconds: target,
            is_within_target: is_within(&heartbeats) && is_within(&bindings),
            heartbeats,
            bindings,
            cpu_share,
            memory,
            ledger_bytes,
            etcd,
        }
    }

    fn latencies(&self) -> Vec<Vec<String>> {
        let row = |what: &str, of: &Summary, times: Quantiles| {
            let Quantiles { p50, p90, p99, p999, max } = times;
            let times = [p50, p90, p99, p999, max].map(|time| format!("{:.2}", 1e3 * time));
            let counts = [of.answered.to_string(), of.failed.to_string(), format!("{:.0}", of.per_second)];
            let names = [self.ledger.clone(), what.to_owned()];
            names.into_iter().chain(counts).chain(times).collect()
        };
        vec![
            row("heartbeats, since due", &self.heartbeats, self.heartbeats.since_due),
            row("heartbeats, since called", &self.heartbeats, self.heartbeats.since_called),
            row("bindings, since due", &self.bindings, self.bindings.since_due),
            row("bindings, since called", &self.bindings, self.bindings.since_called),
        ]
    }

    /// In the order of [`COSTS`].
    fn costs(&self) -> Vec<String> {
        let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let etcd = |show: fn(&EtcdUsage) -> String| self.etcd.as_ref().map_or_else(String::new, show);
        let Memory { started, with_workers, with_jobs, after, peak } = self.memory;
        let within = if self.is_within_target { "yes" } else { "no" };
        vec![
            format!("{:.1}", 100.0 * self.cpu_share),
            mebibytes(started),
            mebibytes(with_workers),
            mebibytes(with_jobs),
            mebibytes(after),
            mebibytes(peak),
            self.ledger_bytes.map_or_else(String::new, mebibytes),
            etcd(|etcd| format!("{:.1}", 100.0 * etcd.cpu_share)),
            etcd(|etcd| format!("{:.1}", etcd.resident_bytes as f64 / f64::from(1 << 20))),
            etcd(|etcd| format!("{:.0}", etcd.syncs_per_second)),
            etcd(|etcd| format!("{:.2}", 1e3 * etcd.seconds_a_sync)),
            format!("{:.0}", 1e3 * self.target_p99_seconds),
            within.to_owned(),
        ]
    }
}

const COSTS: [&str; 13] = [
    "its core's time in use, %",
    "memory when started, MiB",
    "with all workers, MiB",
    "with all jobs, MiB",
    "after measuring, MiB",
    "at most, MiB",
    "ledger on disk, MiB",
    "etcd's time, % of a core",
    "etcd's memory, MiB",
    "etcd's syncs a second",
    "one of them, ms",
    "p99 asked for, ms",
    "both p99 since due within it",
];

impl Report {
    pub fn of(args: &Args, cores: &Cores, ledgers: Vec<Measured>) -> Self {
        Self {
            workers: args.workers,
            jobs: args.jobs,
            shards: u64::from(args.shards) * args.jobs as u64,
            heartbeat_seconds: args.heartbeat,
            step_seconds: args.step,
            seconds: args.seconds,
            core: cores.own,
            is_alone_on_core: cores.are_apart(),
            ledgers,
        }
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let Self { workers, jobs, shards, seconds, .. } = self;
        let title = format!("{workers} workers, {jobs} jobs, {shards} shards; {seconds} s; milliseconds");
        vec![(title, self.latencies()), ("The coordinator, on one core".into(), self.costs())]
    }

    fn latencies(&self) -> Table {
        let header =
            ["ledger", "calls", "answered", "failed", "per second", "p50", "p90", "p99", "p99.9", "max"];
        output::table(&header, self.ledgers.iter().flat_map(Measured::latencies))
    }

    fn costs(&self) -> Table {
        let names = self.ledgers.iter().map(|it| it.ledger.as_str());
        let header: Vec<&str> = std::iter::once("what").chain(names).collect();
        let columns: Vec<Vec<String>> = self.ledgers.iter().map(Measured::costs).collect();
        let row = |(index, what): (usize, &&str)| {
            let values = columns.iter().map(|column| column[index].clone());
            std::iter::once((*what).to_owned()).chain(values).collect()
        };
        output::table(&header, COSTS.iter().enumerate().map(row))
    }
}
