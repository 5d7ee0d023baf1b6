//! `bench coordinator`: one coordinator on one core, asked by as many simulated workers and jobs as a large cluster has.
//! Real calls over TCP; what is simulated is the other side: a worker here makes no rows, and a job trains nothing.

mod etcd;
mod fleet;
mod latency;
mod process;
mod report;
mod store;
mod trainers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use client::Connections;
use node::process::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::arguments;
use crate::machine::Machine;
use crate::output::Output;
use etcd::Etcd;
use fleet::Fleet;
use process::{Cores, Pinned};
use report::{Measured, Memory, Report};
use store::{Kept, Store};
use trainers::Trainers;

/// Between everybody being there and the first call that counts.
const SETTLING: Duration = Duration::from_secs(3);

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Simulated workers, each with its own task and name
    #[arg(long, value_parser = arguments::positive, default_value_t = 10_000)]
    workers: usize,
    /// Jobs, each binding one row after another
    #[arg(long, value_parser = arguments::positive, default_value_t = 1000)]
    jobs: usize,
    /// Shards of each job
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    shards: u32,
    /// Seconds from one heartbeat of a worker to its next
    #[arg(long, value_parser = arguments::seconds, default_value_t = 5.0)]
    heartbeat: f64,
    /// Seconds from one row of a job to its next
    #[arg(long, value_parser = arguments::seconds, default_value_t = 1.0)]
    step: f64,
    /// Seconds of measuring
    #[arg(long, value_parser = arguments::seconds, default_value_t = 60.0)]
    seconds: f64,
    /// Connections that all of them share
    #[arg(long, value_parser = arguments::positive, default_value_t = 32)]
    connections: usize,
    /// Where the ledger lies; given again, both are measured, one after the other: redb, etcd (one of its own is
    /// started) or etcd://host:port/prefix
    #[arg(long, value_name = "STORE", value_parser = store::parse, default_value = "redb")]
    ledger: Vec<Store>,
    /// Folder for it [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Args {
    fn heartbeat(&self) -> Duration {
        Duration::from_secs_f64(self.heartbeat)
    }

    fn step(&self) -> Duration {
        Duration::from_secs_f64(self.step)
    }
}

/// What every simulated process needs.
#[derive(Clone)]
struct Setting {
    coordinator: String,
    /// Shared in turn.
    connections: Arc<[Connections]>,
    /// Set while calls count.
    is_measured: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Setting {
    fn connection(&self, index: usize) -> Connections {
        self.connections[index % self.connections.len()].clone()
    }

    fn counts(&self) -> bool {
        self.is_measured.load(Ordering::Relaxed)
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = args.folder.clone().unwrap_or_else(|| folder.path().to_owned());
    let cores = Cores::split()?;
    let runtime = Runtime::new().context("start a runtime")?;
    let measured = args.ledger.iter().enumerate().map(|(index, store)| {
        let folder = folder.join(index.to_string());
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        runtime.block_on(measure(args, &cores, store, &folder)).with_context(|| store.name().to_owned())
    });
    let report = Report::of(args, &cores, measured.collect::<anyhow::Result<_>>()?);
    let machine = Machine::this(1);
    args.output.give("coordinator", &machine, &report, &report.tables(), &[])
}

async fn measure(args: &Args, cores: &Cores, store: &Store, folder: &Path) -> anyhow::Result<Measured> {
    let kept = store.open(folder)?;
    let coordinator = Pinned::start(cores, folder, &kept.url(), args.heartbeat())?;
    let setting = Setting {
        coordinator: coordinator.url().to_owned(),
        connections: (0..args.connections).map(|_| Connections::new()).collect(),
        is_measured: Arc::default(),
        stop: CancellationToken::new(),
    };
    let mut memory = Memory { started: coordinator.resident_bytes()?, ..Memory::default() };
    let fleet = Fleet::start(&setting, args.workers, args.heartbeat()).await?;
    memory.with_workers = coordinator.resident_bytes()?;
    let jobs = trainers::create(&setting, args).await?;
    fleet.wait_until_ready(u64::from(args.shards) * args.jobs as u64).await?;
    let trainers = Trainers::start(&setting, jobs, args.step());
    tokio::time::sleep(SETTLING).await;
    memory.with_jobs = coordinator.resident_bytes()?;

    let cpu_before = coordinator.cpu_seconds()?;
    let etcd_before = kept.own().map(Etcd::counted).transpose()?;
    setting.is_measured.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    setting.is_measured.store(false, Ordering::Relaxed);
    let cpu_share = (coordinator.cpu_seconds()? - cpu_before) / args.seconds;
    let etcd = kept.own().zip(etcd_before).map(|(etcd, before)| etcd.since(&before)).transpose()?;
    memory.after = coordinator.resident_bytes()?;
    memory.peak = coordinator.peak_bytes()?;

    setting.stop.cancel();
    let heartbeats = fleet.stop().await?;
    let bindings = trainers.stop().await?;
    let ledger_bytes = match &kept {
        Kept::Redb => Some(coordinator.ledger_bytes()?),
        Kept::Etcd(etcd) => Some(etcd.bytes()?),
        Kept::At(_) => None,
    };
    let heartbeats = heartbeats.summary(args.seconds)?;
    let bindings = bindings.summary(args.seconds)?;
    Ok(Measured::of(store, heartbeats, bindings, cpu_share, memory, ledger_bytes, etcd))
}
