//! `bench kernels`: coordinates a second of every mechanism, cache to memory, beside the machine's limits, and on a grid
//! beside binary32.

mod grid;
mod report;

use std::time::{Duration, Instant};

use noise_kernel::Backend;

use crate::arguments::{self, Compute};
use crate::cases::Case;
use crate::comparison::spread;
use crate::job::Job;
use crate::limits::{KEYSTREAMS, Limits, Moment};
use crate::memory;
use crate::output::Output;
use crate::roofline::{bytes_per_coordinate, roofline};
use grid::Method;
use report::{Measured, Report, Skipped};
use reproduce::measure::Machine;
use reproduce::measure::ratios;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    compute: Compute,
    #[command(flatten)]
    output: Output,
    /// Mechanisms, such as blt-4 or band-toeplitz-32; all unless given
    #[arg(long, value_delimiter = ',')]
    case: Vec<Case>,
    /// Coordinates of a shard; 1e4 to 1e8 unless given
    #[arg(long, value_delimiter = ',', value_parser = arguments::coordinates)]
    size: Vec<u64>,
    /// Rows at once
    #[arg(long, value_delimiter = ',', value_parser = arguments::positive, default_values_t = [1, 8])]
    rows: Vec<usize>,
    /// Measurements of each, in turn with the limits
    #[arg(long, value_parser = arguments::positive, default_value_t = 7)]
    repeats: usize,
    /// Stop repeating one case after this time
    #[arg(long, value_parser = arguments::seconds, default_value_t = 10.0)]
    seconds: f64,
    /// Few mechanisms, two sizes, short measurements: whether it works, not how fast it is
    #[arg(long)]
    quick: bool,
}

const ALL: &str = "identity blt-1 blt-2 blt-3 blt-4 blt-5 blt-6 blt-7 blt-8 band-toeplitz-8 band-toeplitz-32 \
                   band-toeplitz-128 band-toeplitz-400 band-inverse-8 lambda-cgd tree dense-64";
const QUICK: &str = "identity blt-4 band-toeplitz-8 band-inverse-8 lambda-cgd tree dense-16";

/// A dense matrix draws all rows so far again for each row; past this size it says nothing new.
const LARGEST_DENSE: u64 = 1_000_000;

pub fn run(args: &Args) -> anyhow::Result<()> {
    let backend = args.compute.backend()?;
    let machine = Machine::current(args.compute.threads());
    let report = args.compute.install(|| measure(args, backend))?;
    args.output.give("kernels", &machine, &report, &report.tables(), &report.charts())
}

fn measure(args: &Args, backend: Backend) -> anyhow::Result<Report> {
    let settings = Method {
        repeats: if args.quick { args.repeats.min(3) } else { args.repeats },
        shortest: Duration::from_millis(if args.quick { 4 } else { 30 }),
        longest: Duration::from_secs_f64(args.seconds),
        backend,
    };
    let names = if args.quick { QUICK } else { ALL };
    let cases = if args.case.is_empty() { Case::list(names)? } else { args.case.clone() };
    let sizes: &[u64] = if args.quick {
        &[10_000, 1_000_000]
    } else {
        &[10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
    };
    let sizes = if args.size.is_empty() { sizes } else { &args.size };
    let mut limits = Limits::new(backend, args.quick)?;
    let mut report = Report::default();
    let mut moments = Vec::new();
    for &size in sizes {
        for &rows in &args.rows {
            for case in &cases {
                match unfit(case, size, rows)? {
                    Some(why) => report.skipped.push(Skipped::new(case, size, rows, why)),
                    None => report.cases.push(one(case, size, rows, &settings, &mut limits, &mut moments)?),
                }
                if grid::is_measured(case, size) {
                    report.grid.push(grid::measure(case, size, rows, &settings)?);
                }
            }
        }
    }
    report.limits(&moments, keystreams(&settings)?)?;
    Ok(report)
}

/// Why a case is not measured, if it is not.
fn unfit(case: &Case, size: u64, rows: usize) -> anyhow::Result<Option<String>> {
    if case.is_dense() && size > LARGEST_DENSE {
        return Ok(Some(format!("a dense matrix is measured up to {LARGEST_DENSE} coordinates")));
    }
    let left = case.iterations - case.first_row();
    if rows as u64 > left {
        return Ok(Some(format!("it has {left} rows")));
    }
    memory::lacking(case, size, rows)
}

fn one(
    case: &Case,
    size: u64,
    rows: usize,
    settings: &Method,
    limits: &mut Limits,
    moments: &mut Vec<Moment>,
) -> anyhow::Result<Measured> {
    eprintln!("{} of {size} coordinates, rows at once: {rows}", case.name);
    let bytes = bytes_per_coordinate(case, rows);
    let mut job = Job::new(case, 0..size, rows, settings.backend)?;
    let mut rates = Vec::new();
    let mut limit = Vec::new();
    let mut copied = Vec::new();
    let started = Instant::now();
    while rates.len() < settings.repeats && (rates.is_empty() || started.elapsed() < settings.longest) {
        let moment = limits.measure()?;
        rates.push(job.rate(settings.shortest)?);
        limit.push(roofline(moment.identity, moment.traffic(), bytes));
        copied.push(moment.copied / 4.0);
        moments.push(moment);
    }
    Ok(Measured {
        case: case.name.clone(),
        shard: size,
        rows_at_once: rows,
        coordinates_per_second: spread(&rates)?,
        bytes_per_coordinate: bytes,
        roofline: spread(&limit)?,
        of_roofline: spread(&ratios(&rates, &limit))?,
        of_copy: spread(&ratios(&rates, &copied))?,
    })
}

fn keystreams(settings: &Method) -> anyhow::Result<Vec<(&'static str, Vec<f64>)>> {
    let measure = |rate: fn(Duration) -> anyhow::Result<f64>| {
        (0..settings.repeats).map(|_| rate(settings.shortest)).collect::<anyhow::Result<_>>()
    };
    KEYSTREAMS.iter().map(|&(name, rate)| Ok((name, measure(rate)?))).collect()
}
