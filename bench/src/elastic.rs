//! `bench elastic`: how late rows are while workers come, leave and are lost, and while shards are split and merged,
//! beside rows when nothing changes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::{Client, FetchRequest};
use comfy_table::Table;
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{Commitment, CoordinateRange, JobId, RowRange, WorkerId, pb};
use rustle::cluster::{ClusterOptions, LocalCluster};
use serde::Serialize;

use crate::arguments;
use crate::machine::Machine;
use crate::output::{self, Output};
use crate::program::program;

const KEY: [u8; 32] = [9; 32];
const PATIENCE: Duration = Duration::from_secs(300);
const ITERATIONS: u64 = 1_000_000;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Coordinates of a row; the mechanism is a BLT of two buffers
    #[arg(long, value_parser = arguments::coordinates, default_value_t = 1_000_000)]
    dimension: u64,
    /// Worker processes to begin with, which share this machine's cores
    #[arg(long, value_parser = arguments::positive, default_value_t = 3)]
    workers: usize,
    /// Milliseconds from one row of the job to the next
    #[arg(long, default_value_t = 50)]
    pace: u64,
    /// Rows when nothing changes, and the fewest of every change
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rows: u64,
    /// Turns of all changes
    #[arg(long, value_parser = arguments::positive, default_value_t = 3)]
    repeats: usize,
}

/// What is done to the cluster while rows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Nothing,
    Add,
    Drain,
    Stop,
    Split,
    Merge,
    Kill,
}

/// In this order each leaves what the next needs: as many workers, and as many shards, as at the beginning.
const TURN: [Change; 7] =
    [Change::Nothing, Change::Add, Change::Drain, Change::Stop, Change::Split, Change::Merge, Change::Kill];

#[derive(Serialize)]
struct Lateness {
    change: Change,
    /// Seconds from asking for a row to having it.
    p50: f64,
    p99: f64,
    worst: f64,
    rows: usize,
    /// The longest that a change took to be through.
    through_seconds: f64,
}

#[derive(Serialize)]
struct Report {
    dimension: u64,
    workers: usize,
    shards: u32,
    pace_seconds: f64,
    lateness: Vec<Lateness>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = Runtime::new().context("start a runtime")?;
    let mut bench = Bench::start(args, &runtime)?;
    let mut measured: Vec<(Change, Vec<f64>, f64)> = TURN.iter().map(|&it| (it, vec![], 0.0)).collect();
    for _ in 0..args.repeats {
        for (change, seconds, through) in &mut measured {
            let took = bench.change(*change, args.rows, seconds)?;
            *through = through.max(took);
        }
    }
    let lateness = measured.into_iter().map(|(change, mut seconds, through_seconds)| {
        seconds.sort_by(f64::total_cmp);
        let p50 = percentile(&seconds, 50.0);
        let p99 = percentile(&seconds, 99.0);
        let worst = percentile(&seconds, 100.0);
        let rows = seconds.len();
        Lateness { change, p50, p99, worst, rows, through_seconds }
    });
    let report = Report {
        dimension: args.dimension,
        workers: args.workers,
        shards: 2 * args.workers as u32,
        pace_seconds: args.pace as f64 / 1e3,
        lateness: lateness.collect(),
    };
    let title = format!(
        "Time to a row of {} coordinates, {} workers, a row every {} ms",
        report.dimension, report.workers, args.pace
    );
    let machine = Machine::this(arguments::cores());
    args.output.give("elastic", &machine, &report, &[(title, table(&report))], &[])
}

fn table(report: &Report) -> Table {
    let header = ["meanwhile", "p50, ms", "p99, ms", "latest, ms", "rows", "through after, s"];
    let row = |it: &Lateness| {
        let name = format!("{:?}", it.change).to_lowercase();
        let times = [it.p50, it.p99, it.worst].map(|seconds| format!("{:.1}", seconds * 1e3));
        let numbers = [it.rows.to_string(), format!("{:.1}", it.through_seconds)];
        std::iter::once(name).chain(times).chain(numbers).collect()
    };
    output::table(&header, report.lateness.iter().map(row))
}

/// Nearest rank, of sorted values.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

struct Bench<'a> {
    runtime: &'a Runtime,
    cluster: LocalCluster,
    client: Client,
    job: JobId,
    dimension: u64,
    pace: Duration,
    row: u64,
    shards: u32,
    /// Workers that run, by index.
    workers: Vec<usize>,
    buffer: Vec<f32>,
    _folder: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    fn start(args: &Args, runtime: &'a Runtime) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut options = ClusterOptions::new(program()?, folder.path().to_owned(), args.workers);
        options.threads_per_worker = (arguments::cores() / args.workers).max(1);
        options.coordinator_flags = vec!["--checkpoint-interval".into(), "2s".into()];
        let cluster = LocalCluster::start(options, KEY)?;
        let _inside = runtime.enter();
        let client = Client::connect(&cluster.url())?;
        let plan = Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: ITERATIONS,
            noise_multiplier: 1.0,
            clip_norm: 1.0,
            participation: Participation { min_sep: 1, max_participations: 1 },
            mechanism: Mechanism::Blt { theta: vec![0.99, 0.6], omega: vec![0.05, 0.2] },
            layout: None,
        })?;
        let job = JobId::new("bench")?;
        let shards = 2 * args.workers as u32;
        let request = pb::CreateJobRequest {
            job: job.to_string(),
            plan_toml: plan.to_toml_string()?,
            dimension: args.dimension,
            shards,
            key_commitment: JobKey::from_bytes(&KEY)?.commitment().to_vec(),
            plan_digest: vec![],
        };
        runtime.block_on(client.jobs().create(request))?;
        let mut bench = Self {
            runtime,
            cluster,
            client,
            job,
            dimension: args.dimension,
            pace: Duration::from_millis(args.pace),
            row: 0,
            shards,
            workers: (0..args.workers).collect(),
            buffer: vec![0.0; args.dimension as usize],
            _folder: folder,
        };
        bench.settle(&mut vec![])?;
        (0..20).try_for_each(|_| bench.take(&mut vec![]))?;
        Ok(bench)
    }

    /// Takes rows until the change is through, and at least so many; says how long that took.
    fn change(&mut self, change: Change, rows: u64, seconds: &mut Vec<f64>) -> anyhow::Result<f64> {
        let began = Instant::now();
        let from = self.row;
        match change {
            Change::Nothing => {}
            Change::Add => {
                let added = self.cluster.add_worker()?;
                self.workers.push(added);
                self.until(seconds, move |bench| Ok(bench.served_by(added)? > 0))?;
            }
            Change::Drain => {
                let worker = WorkerId::new(format!("worker-{}", self.workers[0]))?;
                self.until(seconds, |bench| {
                    Ok(bench.runtime.block_on(bench.client.drain_worker(&worker, false))? == 0)
                })?;
                self.runtime.block_on(self.client.drain_worker(&worker, true))?;
            }
            // The worker's process ends once others have taken over: waited for by itself, so that rows go on.
            Change::Stop => {
                let worker = self.workers.remove(0);
                let pid = self.cluster.worker(worker).context("the worker")?.pid();
                terminate(pid)?;
                self.until(seconds, move |bench| Ok(bench.served_by(worker)? == 0))?;
                self.cluster.stop_worker(worker)?;
            }
            Change::Split | Change::Merge => {
                let shards = if change == Change::Split { 2 * self.shards } else { self.shards };
                let jobs = self.client.jobs();
                let job = self.job.clone();
                let cutting = self.runtime.spawn(async move { jobs.reshard(&job, shards).await });
                while !cutting.is_finished() {
                    self.take(seconds)?;
                }
                self.runtime.block_on(cutting)??;
            }
            Change::Kill => {
                let worker = self.workers[0];
                let endpoint = self.cluster.worker(worker).context("the worker")?.grpc().to_owned();
                self.cluster.kill_worker(worker)?;
                // Its shards count as served until it is missed.
                self.until(seconds, |bench| Ok(bench.served_at(&endpoint)? == 0))?;
                self.settle(seconds)?;
                self.cluster.start_worker(worker)?;
            }
        }
        self.settle(seconds)?;
        let through = began.elapsed().as_secs_f64();
        while self.row < from + rows {
            self.take(seconds)?;
        }
        Ok(through)
    }

    /// Until every shard is served.
    fn settle(&mut self, seconds: &mut Vec<f64>) -> anyhow::Result<()> {
        self.until(seconds, |bench| {
            let job = bench.runtime.block_on(bench.client.jobs().get(&bench.job))?;
            Ok(job.shards == job.shards_ready)
        })
    }

    fn until(
        &mut self,
        seconds: &mut Vec<f64>,
        mut is_through: impl FnMut(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !is_through(self)? {
            ensure!(began.elapsed() < PATIENCE, "the change was not through after {PATIENCE:?}");
            self.take(seconds)?;
        }
        Ok(())
    }

    fn served_by(&self, worker: usize) -> anyhow::Result<usize> {
        let Some(process) = self.cluster.worker(worker) else { return Ok(0) };
        self.served_at(process.grpc())
    }

    fn served_at(&self, endpoint: &str) -> anyhow::Result<usize> {
        let routes = self.runtime.block_on(self.client.routing(&self.job))?.routes;
        Ok(routes.iter().filter(|route| route.endpoint.as_deref() == Some(endpoint)).count())
    }

    /// The next row, at the job's pace.
    fn take(&mut self, seconds: &mut Vec<f64>) -> anyhow::Result<()> {
        let request = FetchRequest {
            job: self.job.clone(),
            branch: 0,
            rows: RowRange { start: self.row, end: self.row + 1 },
            range: CoordinateRange { start: 0, end: self.dimension },
            commitments: vec![Commitment::of_text("bench")],
            deadline: (Instant::now() + PATIENCE).into(),
        };
        self.row += 1;
        let began = Instant::now();
        self.runtime.block_on(self.client.fetch(request).into_slice(&mut self.buffer))?;
        seconds.push(began.elapsed().as_secs_f64());
        std::thread::sleep(self.pace.saturating_sub(began.elapsed()));
        Ok(())
    }
}

fn terminate(pid: u32) -> anyhow::Result<()> {
    let pid = rustix::process::Pid::from_raw(pid as i32).context("a process's number")?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([50.0, 99.0, 100.0].map(|percent| percentile(&values, percent)), [50.0, 99.0, 100.0]);
        assert_eq!(percentile(&[3.0], 99.0), 3.0);
    }
}
