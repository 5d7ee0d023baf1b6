//! The command behind `make simulate`, which runs many seeds or repeats one.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

#[derive(Parser)]
#[command(about = "Runs the whole service in simulation, seed by seed")]
struct Cli {
    /// Seeds to run
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run this seed alone, and print its events
    #[arg(long)]
    seed: Option<u64>,
    /// Run that seed this many times
    #[arg(long, default_value_t = 1, requires = "seed")]
    times: u32,
    /// Seeds that run at the same time; 0 for one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Run one seed in this many twice and require equal results; 0 for none
    #[arg(long, default_value_t = 100)]
    repeat_every: u64,
    /// Stop after the first violation
    #[arg(long)]
    stop: bool,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if let Ok(filter) = std::env::var("RUST_LOG") {
        let filter: Targets = filter.parse()?;
        tracing_subscriber::registry().with(fmt::layer().with_filter(filter)).init();
    }
    if let Some(seed) = cli.seed {
        let mut is_good = true;
        for _ in 0..cli.times {
            let outcome = simulation::run_seed(seed, true)?;
            println!("{outcome:#?}");
            is_good &= outcome.violations.is_empty();
        }
        return Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let threads = match cli.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let figures =
        simulation::simulate(cli.first..cli.first + cli.count, threads, cli.repeat_every, cli.stop)?;
    for (seed, violation) in &figures.violations {
        eprintln!("seed {seed}: {violation}");
    }
    for seed in &figures.unrepeatable {
        eprintln!("seed {seed}: went another way the second time");
    }
    match cli.format {
        Format::Text => println!("{figures}"),
        Format::Json => println!("{:#}", figures.json()),
    }
    Ok(if figures.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
