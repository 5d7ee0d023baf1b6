//! `bench peers`: the same work by Rustle and by other libraries, strictly in turn, on the same processors.

pub mod environment;
pub mod python;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use noise_kernel::Backend;
use plan::Mechanism;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments::{self, Compute};
use crate::cases::Case;
use crate::comparison::spread;
use crate::job::{self, Job};
use crate::memory;
use crate::output::Output;
use environment::Environment;
use python::Python;
use report::{Compared, Failed, Report};
use reproduce::measure::Machine;
use reproduce::measure::ratios;

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

const ALL: &str = "identity blt-1 blt-2 blt-3 blt-4 blt-5 blt-6 blt-7 blt-8 band-toeplitz-8 band-toeplitz-32 \
                   band-toeplitz-128 band-toeplitz-400 tree band-inverse-8";

const RUNNER: &str = include_str!("../../peers/peer.py");

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
    let cases = if args.case.is_empty() { Case::list(ALL)? } else { args.case.clone() };
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
            Ok(()) => {
                // A process of its own for each library.
                let mut peer = Python::new(&environment, "peer.py", RUNNER, Box::new(|| ()))?;
                with_library(library, &cases, &settings, &mut peer, &mut report);
            }
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
    peer: &mut Python,
    report: &mut Report,
) {
    for case in cases.iter().filter(|case| library.has(case)) {
        eprintln!("{} beside {}", case.name, library.name());
        match compare(library, case, settings, peer) {
            Ok(compared) => report.add(compared),
            Err(error) => report.failed(Failed::new(library, Some(case), &error)),
        }
    }
}

fn compare(
    library: Library,
    case: &Case,
    settings: &Settings,
    peer: &mut Python,
) -> anyhow::Result<Compared> {
    let size = settings.size.unwrap_or(if case.bands() > 32 { 1_000_000 } else { 10_000_000 });
    let rows_ahead = job::rows_ahead(case)?;
    if let Some(why) = memory::lacking(case, size, rows_ahead)? {
        anyhow::bail!("{size} coordinates: {why}");
    }
    let way = prepare(peer, library, case, size, settings.compute.threads())?;
    // Coordinates a second, in the order in which they are taken.
    let [mut ours, mut beside, mut ours_ahead, mut beside_ahead] = [const { Vec::new() }; 4];
    settings.compute.install(|| {
        let mut one = Job::new(case, 0..size, 1, settings.backend)?;
        let mut ahead = Job::new(case, 0..size, rows_ahead, settings.backend)?;
        for _ in 0..settings.repeats {
            ours.push(one.rate(settings.time)?);
            beside.push(measure(peer, settings.time)?);
            ours_ahead.push(ahead.rate(settings.time)?);
            beside_ahead.push(measure(peer, settings.time)?);
        }
        Ok(())
    })?;
    Ok(Compared {
        case: case.name.clone(),
        library,
        dimension: size,
        rows_ahead,
        way: way.chosen,
        ways: way.rates,
        ratio: spread(&ratios(&ours, &beside))?,
        ratio_ahead: spread(&ratios(&ours_ahead, &beside_ahead))?,
        ours: spread(&ours)?,
        ours_ahead: spread(&ours_ahead)?,
        peer: spread(&[beside, beside_ahead].concat())?,
    })
}

/// How the library does a case: the rates of all the ways it has, in coordinates a second, and the fastest.
#[derive(Debug, Deserialize)]
struct Way {
    rates: BTreeMap<String, f64>,
    chosen: String,
}

/// Compiles and warms up a case in all its ways, and keeps the fastest.
fn prepare(
    peer: &mut Python,
    library: Library,
    case: &Case,
    size: u64,
    threads: usize,
) -> anyhow::Result<Way> {
    let mut request = family(case)?;
    request["library"] = json!(library.name());
    request["dimension"] = size.into();
    request["threads"] = threads.into();
    Ok(serde_json::from_value(peer.ask(&json!({ "prepare": request }), Duration::MAX)?)?)
}

/// Coordinates a second over at least `time`.
fn measure(peer: &mut Python, time: Duration) -> anyhow::Result<f64> {
    let answer = peer.ask(&json!({ "measure": time.as_secs_f64() }), Duration::MAX)?;
    answer["coordinates_per_second"].as_f64().with_context(|| format!("the peer answered {answer}"))
}

/// What the runner needs to know of a mechanism. Fails for one it has no way to do.
fn family(case: &Case) -> anyhow::Result<Value> {
    Ok(match &case.mechanism {
        Mechanism::Identity => json!({ "family": "identity" }),
        Mechanism::Tree { .. } => json!({ "family": "tree" }),
        Mechanism::Blt { theta, omega } => json!({ "family": "blt", "theta": theta, "omega": omega }),
        Mechanism::BandToeplitz { coefficients, .. } => {
            json!({ "family": "band-toeplitz", "coefficients": coefficients })
        }
        Mechanism::BandInverse { coefficients } => {
            json!({ "family": "band-inverse", "coefficients": coefficients })
        }
        _ => anyhow::bail!("no peer does {}", case.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_back() {
        let (_folder, mut peer) =
            python::tests::peer("read a; echo '{\"coordinates_per_second\": 5.5}'; read a");
        assert_eq!(measure(&mut peer, Duration::from_secs(1)).unwrap(), 5.5);
    }

    #[test]
    fn coefficients_go_along() {
        let request = family(&"band-inverse-3".parse().unwrap()).unwrap();
        assert_eq!(request["coefficients"].as_array().unwrap().len(), 3);
        assert!(family(&"dense-4".parse().unwrap()).is_err());
    }
}
