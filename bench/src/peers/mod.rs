//! `bench peers`: the same work by Rustle and by other libraries, strictly in turn, on the same processors.

pub mod environment;
mod process;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use noise_kernel::Backend;
use serde::Serialize;

use crate::arguments::{self, Compute};
use crate::cases::Case;
use crate::job::{self, Job};
use crate::memory;
use crate::output::Output;
use environment::Environment;
use process::Peer;
use report::{Compared, Failed, Report};
use reproduce::measure::Machine;
use reproduce::measure::{Spread, ratios};

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    compute: Compute,
    #[command(flatten)]
    output: Output,
    /// Mechanisms, such as blt-4; all that a library is held against unless given
    #[arg(long, value_delimiter = ',')]
    case: Vec<Case>,
    /// Coordinates; unless given, 1e7, and 1e6 for more than 32 bands
    #[arg(long, value_parser = arguments::coordinates)]
    size: Option<u64>,
    /// Rounds of ours, peer, ours running ahead, peer
    #[arg(long, value_parser = arguments::positive, default_value_t = 7)]
    repeats: usize,
    /// Seconds of each measurement
    #[arg(long, value_parser = arguments::seconds, default_value_t = 1.0)]
    seconds: f64,
    /// Libraries beside jax-privacy and numpy
    #[arg(long, value_enum)]
    with: Vec<Library>,
    /// Python 3.11 or later, to make the environment with
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Folder of the environment; target/peers unless given
    #[arg(long)]
    environment: Option<PathBuf>,
}

/// A library to hold Rustle against; its name is that of its package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Library {
    JaxPrivacy,
    Numpy,
    Torch,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::JaxPrivacy => "jax-privacy",
            Self::Numpy => "numpy",
            Self::Torch => "torch",
        }
    }

    /// Libraries that correlate nothing are held against independent noise.
    fn has(self, case: &Case) -> bool {
        self == Self::JaxPrivacy || case.name == "identity"
    }
}

const ALL: [&str; 15] = [
    "identity",
    "blt-1",
    "blt-2",
    "blt-3",
    "blt-4",
    "blt-5",
    "blt-6",
    "blt-7",
    "blt-8",
    "band-toeplitz-8",
    "band-toeplitz-32",
    "band-toeplitz-128",
    "band-toeplitz-400",
    "tree",
    "band-inverse-8",
];

/// Two threads unless asked otherwise, on either side.
pub const THREADS: usize = 2;

struct Settings {
    compute: Compute,
    backend: Backend,
    size: Option<u64>,
    repeats: usize,
    time: Duration,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let cases = if args.case.is_empty() { Case::list(&ALL)? } else { args.case.clone() };
    let backend = args.compute.backend()?;
    let threads = args.compute.threads.unwrap_or(THREADS.min(arguments::cores()));
    pin(threads)?;
    let compute = Compute { threads: Some(threads), ..args.compute.clone() };
    let time = Duration::from_secs_f64(args.seconds);
    let settings = Settings { compute, backend, size: args.size, repeats: args.repeats, time };
    let environment = Environment::prepare(args.environment.clone(), &args.python)?;
    let mut report = Report::default();
    let mut libraries = vec![Library::JaxPrivacy, Library::Numpy];
    libraries
        .extend(args.with.iter().filter(|asked| !libraries.contains(asked)).copied().collect::<Vec<_>>());
    for library in libraries {
        match environment.install(library) {
            Ok(()) => with_library(library, &cases, &settings, &environment, &mut report),
            Err(error) => report.failed(Failed::new(library, None, &error)),
        }
    }
    anyhow::ensure!(!report.is_empty(), "nothing could be compared with:\n{}", report.failures());
    args.output.give("peers", &Machine::current(threads), &report, &report.tables(), &report.charts())
}

/// Everything started from here on, Rustle's threads and the peers, runs on the same processors.
pub fn pin(threads: usize) -> anyhow::Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None).context("ask for this process's processors")?;
    let mut chosen = rustix::thread::CpuSet::new();
    let all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    all.take(threads).for_each(|cpu| chosen.set(cpu));
    let got = chosen.count() as usize;
    let most = allowed.count();
    anyhow::ensure!(
        got == threads,
        "--threads {threads}; allowed: 1 to {most}, the processors of this process"
    );
    rustix::thread::sched_setaffinity(None, &chosen).context("choose processors")
}

fn with_library(
    library: Library,
    cases: &[Case],
    settings: &Settings,
    environment: &Environment,
    report: &mut Report,
) {
    let mut peer = None;
    for case in cases.iter().filter(|case| library.has(case)) {
        eprintln!("{} beside {}", case.name, library.name());
        match compare(library, case, settings, environment, &mut peer) {
            Ok(compared) => report.add(compared),
            Err(error) => {
                report.failed(Failed::new(library, Some(case), &error));
                // It may have ended, or hold what it could not finish.
                peer = None;
            }
        }
    }
}

fn compare(
    library: Library,
    case: &Case,
    settings: &Settings,
    environment: &Environment,
    peer: &mut Option<Peer>,
) -> anyhow::Result<Compared> {
    let size = settings.size.unwrap_or(if case.bands() > 32 { 1_000_000 } else { 10_000_000 });
    let rows_ahead = job::rows_ahead(case)?;
    if let Some(why) = memory::lacking(case, size, rows_ahead)? {
        anyhow::bail!("{size} coordinates: {why}");
    }
    let peer = match peer {
        Some(peer) => peer,
        None => peer.insert(environment.start()?),
    };
    let way = peer.prepare(library, case, size, settings.compute.threads())?;
    let measured = settings.compute.install(|| in_turn(case, size, rows_ahead, settings, peer))?;
    measured.compared(library, case, size, rows_ahead, way)
}

/// Coordinates a second, in the order in which they were taken.
#[derive(Default)]
struct InTurn {
    ours: Vec<f64>,
    peer: Vec<f64>,
    ours_ahead: Vec<f64>,
    peer_ahead: Vec<f64>,
}

fn in_turn(
    case: &Case,
    size: u64,
    rows_ahead: usize,
    settings: &Settings,
    peer: &mut Peer,
) -> anyhow::Result<InTurn> {
    let mut one = Job::new(case, 0..size, 1, settings.backend)?;
    let mut ahead = Job::new(case, 0..size, rows_ahead, settings.backend)?;
    let mut all = InTurn::default();
    for _ in 0..settings.repeats {
        all.ours.push(one.rate(settings.time)?);
        all.peer.push(peer.measure(settings.time)?);
        all.ours_ahead.push(ahead.rate(settings.time)?);
        all.peer_ahead.push(peer.measure(settings.time)?);
    }
    Ok(all)
}

impl InTurn {
    fn compared(
        mut self,
        library: Library,
        case: &Case,
        size: u64,
        rows_ahead: usize,
        way: process::Way,
    ) -> anyhow::Result<Compared> {
        let spread = |values: &[f64]| Spread::of(values).context("nothing was measured");
        let ratio = spread(&ratios(&self.ours, &self.peer))?;
        let ratio_ahead = spread(&ratios(&self.ours_ahead, &self.peer_ahead))?;
        self.peer.append(&mut self.peer_ahead);
        Ok(Compared {
            case: case.name.clone(),
            library,
            dimension: size,
            rows_ahead,
            way: way.chosen,
            ways: way.rates,
            ours: spread(&self.ours)?,
            ours_ahead: spread(&self.ours_ahead)?,
            peer: spread(&self.peer)?,
            ratio,
            ratio_ahead,
        })
    }
}
