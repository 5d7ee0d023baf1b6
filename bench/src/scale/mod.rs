//! `bench scale`: rates as threads and worker processes are added, costs as rows, coordinates and bands grow.

mod growth;
mod report;
mod scaling;
pub mod worker;

use std::time::Duration;

use noise_kernel::Backend;

use crate::arguments::{self, Compute};
use crate::cases::Case;
use crate::output::Output;
use report::Report;
use reproduce::measure::Machine;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    compute: Compute,
    #[command(flatten)]
    output: Output,
    /// Mechanism that threads and workers run
    #[arg(long, default_value = "blt-4")]
    case: Case,
    /// Coordinates of strong scaling; of weak scaling when all threads run
    #[arg(long, value_parser = arguments::coordinates, default_value = "1e7")]
    size: u64,
    /// Rows at once
    #[arg(long, value_parser = arguments::positive, default_value_t = 8)]
    rows: usize,
    #[arg(long, value_parser = arguments::positive, default_value_t = 5)]
    repeats: usize,
    /// Small and short: whether it works, not how fast it is
    #[arg(long)]
    quick: bool,
}

/// The same for every measurement of one run.
pub struct Settings {
    case: Case,
    size: u64,
    rows: usize,
    repeats: usize,
    most: usize,
    backend: Backend,
    compute: Compute,
    /// Shortest measurement.
    time: Duration,
    quick: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let most = args.compute.threads();
    let settings = Settings {
        case: args.case.clone(),
        size: if args.quick { args.size.min(100_000) } else { args.size },
        rows: args.rows,
        repeats: if args.quick { args.repeats.min(2) } else { args.repeats },
        most,
        backend: args.compute.backend()?,
        compute: args.compute.clone(),
        time: Duration::from_millis(if args.quick { 5 } else { 200 }),
        quick: args.quick,
    };
    let smallest = 512 * most as u64;
    anyhow::ensure!(
        settings.size >= smallest,
        "--size {} for {most} workers; allowed: {smallest} or more, a block of 512 each",
        settings.size
    );
    let machine = Machine::current(most);
    let report = Report {
        case: settings.case.name.clone(),
        rows_at_once: settings.rows,
        threads: scaling::measure(&settings, scaling::threads)?,
        workers: scaling::measure(&settings, worker::side_by_side)?,
        growth: args.compute.install(|| growth::measure(&settings))?,
    };
    args.output.give("scale", &machine, &report, &report.tables(), &report.charts())
}
