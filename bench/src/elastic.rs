//! `bench elastic`: how late rows are while workers come, leave and are lost, and while shards are split and merged,
//! beside rows when nothing changes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use comfy_table::Table;
use node::process::runtime::Runtime;
use plan::Mechanism;
use proto::WorkerId;
use serde::Serialize;

use crate::arguments;
use crate::cluster::{JobCluster, Size, TIMEOUT};
use crate::coordinator::latency::nearest_rank;
use crate::output::{self, Output};
use reproduce::measure::Machine;

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
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| nearest_rank(&seconds, share));
        Lateness { change, p50, p99, worst, rows: seconds.len(), through_seconds }
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
    let machine = Machine::current(arguments::cores());
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

struct Bench<'a> {
    it: JobCluster<'a>,
    pace: Duration,
    row: u64,
    shards: u32,
    /// Workers that run, by index.
    workers: Vec<usize>,
}

impl<'a> Bench<'a> {
    fn start(args: &Args, runtime: &'a Runtime) -> anyhow::Result<Self> {
        let Args { workers, dimension, .. } = *args;
        let shards = 2 * workers as u32;
        let size = Size { workers, shards, dimension, iterations: ITERATIONS };
        let mechanism = Mechanism::Blt { theta: vec![0.99, 0.6], omega: vec![0.05, 0.2] };
        let it = JobCluster::start(runtime, &size, mechanism, |_, options| {
            options.coordinator_flags = vec!["--checkpoint-interval".into(), "2s".into()];
            Ok(())
        })?;
        let pace = Duration::from_millis(args.pace);
        let mut bench = Self { it, pace, row: 0, shards, workers: (0..workers).collect() };
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
                let added = self.it.cluster.add_worker()?;
                self.workers.push(added);
                self.until(seconds, move |bench| Ok(bench.served_by(added)? > 0))?;
            }
            Change::Drain => {
                let worker = WorkerId::new(format!("worker-{}", self.workers[0]))?;
                self.until(seconds, |bench| {
                    Ok(bench.it.runtime.block_on(bench.it.client.drain_worker(&worker, false))? == 0)
                })?;
                self.it.runtime.block_on(self.it.client.drain_worker(&worker, true))?;
            }
            // The worker's process ends once others have taken over: waited for by itself, so that rows go on.
            Change::Stop => {
                let worker = self.workers.remove(0);
                let pid = self.it.cluster.worker(worker).context("the worker")?.pid();
                terminate(pid)?;
                self.until(seconds, move |bench| Ok(bench.served_by(worker)? == 0))?;
                self.it.cluster.stop_worker(worker)?;
            }
            Change::Split | Change::Merge => {
                let shards = if change == Change::Split { 2 * self.shards } else { self.shards };
                let jobs = self.it.client.jobs();
                let job = self.it.job.clone();
                let cutting = self.it.runtime.spawn(async move { jobs.reshard(&job, shards).await });
                while !cutting.is_finished() {
                    self.take(seconds)?;
                }
                self.it.runtime.block_on(cutting)??;
            }
            Change::Kill => {
                let worker = self.workers[0];
                let endpoint = self.it.cluster.worker(worker).context("the worker")?.grpc().to_owned();
                self.it.cluster.kill_worker(worker)?;
                // Its shards count as served until it is missed.
                self.until(seconds, |bench| Ok(bench.served_at(&endpoint)? == 0))?;
                self.settle(seconds)?;
                self.it.cluster.start_worker(worker)?;
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
            let job = bench.it.runtime.block_on(bench.it.client.jobs().get(&bench.it.job))?;
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
            ensure!(began.elapsed() < TIMEOUT, "the change was not through after {TIMEOUT:?}");
            self.take(seconds)?;
        }
        Ok(())
    }

    fn served_by(&self, worker: usize) -> anyhow::Result<usize> {
        let Some(process) = self.it.cluster.worker(worker) else { return Ok(0) };
        self.served_at(process.grpc())
    }

    fn served_at(&self, endpoint: &str) -> anyhow::Result<usize> {
        let routes = self.it.runtime.block_on(self.it.client.routing(&self.it.job))?.routes;
        Ok(routes.iter().filter(|route| route.endpoint.as_deref() == Some(endpoint)).count())
    }

    /// The next row, at the job's pace.
    fn take(&mut self, seconds: &mut Vec<f64>) -> anyhow::Result<()> {
        let began = Instant::now();
        seconds.push(self.it.fetch(self.row)?);
        self.row += 1;
        std::thread::sleep(self.pace.saturating_sub(began.elapsed()));
        Ok(())
    }
}

fn terminate(pid: u32) -> anyhow::Result<()> {
    let pid = rustix::process::Pid::from_raw(pid as i32).context("a process's number")?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?)
}
