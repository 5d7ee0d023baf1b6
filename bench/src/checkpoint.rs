//! `bench checkpoint`: what checkpoints cost a job whose rows are fetched as fast as they come, and what restoring takes.

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use comfy_table::Table;
use coordinator::checkpointing::interval::{self, CheckpointCost, Expectations, Schedule};
use node::process::runtime::Runtime;
use plan::Mechanism;
use serde::Serialize;

use crate::arguments;
use crate::cluster::{JobCluster, Size};
use crate::comparison::spread;
use crate::output::{self, Output};
use reproduce::measure::Machine;
use reproduce::measure::Spread;

/// The defaults of a coordinator.
const EXPECTED: Expectations =
    Expectations { mtbf: Duration::from_secs(3 * 3600), max_replay: Duration::from_secs(60) };

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Coordinates of a row; the mechanism is a BLT of four buffers
    #[arg(long, value_parser = arguments::coordinates, default_value_t = 10_000_000)]
    dimension: u64,
    /// Worker processes, which share this machine's cores
    #[arg(long, value_parser = arguments::positive, default_value_t = 1)]
    workers: usize,
    /// Rows fetched with one checkpoint under way, and as many without, in turn
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rows: u64,
    /// Turns
    #[arg(long, value_parser = arguments::positive, default_value_t = 5)]
    repeats: usize,
    /// Bytes for copies of state in each worker; 0 holds making while state is written
    #[arg(long, default_value = "4GiB")]
    snapshot_bytes: String,
    /// Where checkpoints go [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Default)]
struct Measured {
    /// Seconds of a row.
    alone: Vec<f64>,
    beside: Vec<f64>,
    /// Seconds that one checkpoint took, and that it cost the job.
    writing: Vec<f64>,
    cost: Vec<f64>,
    bytes: u64,
}

#[derive(Serialize)]
struct Report {
    dimension: u64,
    workers: usize,
    snapshot_bytes: String,
    checkpoint_bytes: u64,
    row_seconds: Spread,
    row_seconds_during_checkpoints: Spread,
    checkpoint_seconds: Spread,
    /// Time by which one checkpoint made its rows later.
    cost_seconds: Spread,
    /// What a coordinator chooses by itself.
    interval_seconds: f64,
    /// Of the job's time, at that interval.
    overhead: f64,
    /// From the start of new workers to their first row, from a checkpoint and from the key.
    restore_seconds: f64,
    replay_seconds: f64,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = Runtime::new().context("start a runtime")?;
    let mut bench = Bench::start(args, &runtime)?;
    let mut measured = Measured::default();
    let mut row = 4;
    bench.fetch(0..row)?;
    for _ in 0..args.repeats {
        row = bench.turn(row, args.rows, &mut measured)?;
    }
    let restore_seconds = bench.restart(row)?;
    std::fs::remove_dir_all(&bench.store).with_context(|| format!("remove {}", bench.store.display()))?;
    let replay_seconds = bench.restart(row + 1)?;
    let report = report(args, &measured, restore_seconds, replay_seconds)?;
    let machine = Machine::current(arguments::cores());
    args.output.give("checkpoint", &machine, &report, &[(title(&report), table(&report))], &[])
}

fn report(args: &Args, measured: &Measured, restore: f64, replay: f64) -> anyhow::Result<Report> {
    let writing = spread(&measured.writing)?;
    let cost = spread(&measured.cost)?;
    // Rows are fetched as fast as they are made: replay is as slow as the job.
    let chosen = CheckpointCost { write: Duration::try_from_secs_f64(writing.median)?, replay_rate: 1.0 };
    let interval = interval::interval(Schedule::Auto, Some(chosen), EXPECTED).context("an interval")?;
    Ok(Report {
        dimension: args.dimension,
        workers: args.workers,
        snapshot_bytes: args.snapshot_bytes.clone(),
        checkpoint_bytes: measured.bytes,
        row_seconds: spread(&measured.alone)?,
        row_seconds_during_checkpoints: spread(&measured.beside)?,
        checkpoint_seconds: writing,
        cost_seconds: cost,
        interval_seconds: interval.as_secs_f64(),
        overhead: cost.median / interval.as_secs_f64(),
        restore_seconds: restore,
        replay_seconds: replay,
    })
}

fn title(report: &Report) -> String {
    let mb = report.checkpoint_bytes as f64 / 1e6;
    format!("Checkpoints of {mb:.0} MB, {} coordinates, {} workers", report.dimension, report.workers)
}

fn table(report: &Report) -> Table {
    let spreads = [
        ("row, ms", report.row_seconds),
        ("row while a checkpoint is written, ms", report.row_seconds_during_checkpoints),
        ("checkpoint, ms", report.checkpoint_seconds),
        ("time that it cost the job, ms", report.cost_seconds),
    ];
    let numbers = [
        ("interval chosen, s", report.interval_seconds),
        ("overhead at that interval, %", 100.0 * report.overhead),
        ("restored after, s", report.restore_seconds),
        ("replayed from the key after, s", report.replay_seconds),
    ];
    let spreads = spreads.map(|(what, spread)| vec![what.to_owned(), spread.shown(1e-3)]);
    let numbers = numbers.map(|(what, number)| vec![what.to_owned(), format!("{number:.2}")]);
    output::table(&["what", "median (least to most)"], spreads.into_iter().chain(numbers))
}

struct Bench<'a> {
    cluster: JobCluster<'a>,
    workers: usize,
    store: PathBuf,
}

impl<'a> Bench<'a> {
    fn start(args: &Args, runtime: &'a Runtime) -> anyhow::Result<Self> {
        let Args { workers, dimension, .. } = *args;
        let iterations = 6 + 2 * args.rows * args.repeats as u64;
        let size = Size { workers, shards: workers as u32, dimension, iterations };
        let mechanism = Mechanism::Blt { theta: vec![0.99, 0.9, 0.6, 0.2], omega: vec![0.01, 0.1, 0.2, 0.2] };
        let mut store = PathBuf::new();
        let cluster = JobCluster::start(runtime, &size, mechanism, |folder, options| {
            let folder = args.folder.as_deref().unwrap_or(folder).join("bench-checkpoints");
            store = std::path::absolute(folder)?;
            let url = format!("file://{}", store.display());
            options.coordinator_flags =
                ["--checkpoint-interval", "0", "--checkpoint-url", &url].map(String::from).into();
            options.worker_flags = vec!["--snapshot-bytes".into(), args.snapshot_bytes.clone()];
            Ok(())
        })?;
        Ok(Self { cluster, workers, store })
    }

    /// Fetches rows without a checkpoint, then as many with one; returns the next row.
    fn turn(&mut self, row: u64, rows: u64, measured: &mut Measured) -> anyhow::Result<u64> {
        let alone = self.fetch(row..row + rows)?;
        let jobs = self.cluster.client.jobs();
        let job = self.cluster.job.clone();
        let writing = self.cluster.runtime.spawn(async move { jobs.checkpoint(&job).await });
        let beside = self.fetch(row + rows..row + 2 * rows)?;
        ensure!(
            writing.is_finished(),
            "{rows} rows were fetched before the checkpoint was written: ask for more (--rows)"
        );
        let written = self.cluster.runtime.block_on(writing)??;
        measured.alone.push(alone / rows as f64);
        measured.beside.push(beside / rows as f64);
        measured.writing.push(written.seconds);
        measured.cost.push((beside - alone).max(0.0));
        measured.bytes = written.bytes;
        Ok(row + 2 * rows)
    }

    /// Seconds until all of the rows are there, one after the other.
    fn fetch(&mut self, rows: Range<u64>) -> anyhow::Result<f64> {
        let started = Instant::now();
        for row in rows {
            self.cluster.fetch(row)?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Starts new processes for all workers; returns the seconds until they have served a row.
    fn restart(&mut self, row: u64) -> anyhow::Result<f64> {
        (0..self.workers).try_for_each(|worker| self.cluster.cluster.kill_worker(worker))?;
        let started = Instant::now();
        (0..self.workers).try_for_each(|worker| self.cluster.cluster.start_worker(worker))?;
        self.cluster.fetch(row)?;
        Ok(started.elapsed().as_secs_f64())
    }
}
