//! The command behind `make chaos`, `make failover` and `make slow-link`, which prints one line of figures.

use std::{path::PathBuf, process::ExitCode};

use chaos::{ends, failover, nemesis::Fault, run, slow_link};
use clap::{Args, Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

#[derive(Parser)]
#[command(about = "Runs a real cluster under real faults and checks every byte")]
struct Cli {
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    figure: Option<Figure>,
}

#[derive(Args)]
struct Rounds {
    /// Rounds, one fault each
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// Seed of the first round; each has the next
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run this round alone
    #[arg(long)]
    seed: Option<u64>,
    /// Choose only from these faults, separated by commas
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// End a process at every durable step, this many times alone, with one of the other role, and with all others
    #[arg(long, value_name = "TIMES", conflicts_with_all = ["count", "seed", "faults"])]
    every_point: Option<u64>,
    /// Keep logs, ledger and checkpoints here
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Args)]
struct Common {
    #[arg(long, default_value_t = 4, global = true)]
    workers: usize,
    #[arg(long, value_enum, default_value_t = Format::Text, global = true)]
    format: Format,
}

#[derive(Subcommand)]
enum Figure {
    /// Kill one worker repeatedly and measure the time until detection and until the next row
    Failover {
        #[arg(long, default_value_t = 100_000_000)]
        dimension: u64,
        #[arg(long, default_value_t = 20)]
        kills: u64,
    },
    /// Put one worker behind a slow link repeatedly and measure the cost for whole rows and for the other workers' parts
    SlowLink {
        #[arg(long, default_value_t = 400_000)]
        dimension: u64,
        #[arg(long, default_value_t = 10)]
        turns: u64,
    },
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    anyhow::ensure!(
        (2..=60).contains(&cli.common.workers),
        "--workers is {}; allowed: 2 to 60",
        cli.common.workers
    );
    let format = cli.common.format;
    let is_good = match cli.figure {
        Some(Figure::Failover { dimension, kills }) => {
            let options = failover::Options { dimension, workers: cli.common.workers, count: kills, seed: 0 };
            let dir = TempDir::new()?;
            let bar = bar(kills);
            let figures = failover::run(&run::program()?, dir.path(), &options, |_| bar.inc(1))?;
            bar.finish_and_clear();
            print(format, figures.json(), figures.to_string());
            figures.is_good()
        }
        Some(Figure::SlowLink { dimension, turns }) => {
            let options = slow_link::Options { dimension, workers: cli.common.workers, turns };
            let dir = TempDir::new()?;
            let bar = bar(turns);
            let figures = slow_link::run(&run::program()?, dir.path(), &options, || bar.inc(1))?;
            bar.finish_and_clear();
            print(format, figures.json(), figures.to_string());
            figures.is_good()
        }
        None => rounds(&cli.rounds, &cli.common)?,
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rounds(rounds: &Rounds, common: &Common) -> anyhow::Result<bool> {
    let temporary = TempDir::new()?;
    let mut faults = rounds.faults.clone();
    let mut count = rounds.count;
    if let Some(times) = rounds.every_point {
        anyhow::ensure!(
            durable_io::ARE_ARMABLE,
            "--every-point needs a build with the feature ledger/failpoints"
        );
        (faults, count) = (vec![Fault::EndAt], times * ends::rounds());
    }
    let seeds = match rounds.seed {
        Some(seed) => seed..seed + 1,
        None => rounds.first..rounds.first + count,
    };
    let bar = bar(seeds.end - seeds.start);
    let dir = std::path::absolute(rounds.dir.as_deref().unwrap_or(temporary.path()))?;
    let program = run::program()?;
    let workers = common.workers;
    let options = run::Options { program, dir, workers, seeds, faults };
    let figures = run::run(&options, |seed, what| {
        bar.inc(1);
        // Without a terminal the bar shows nothing, and a log wants every round.
        if bar.is_hidden() { eprintln!("seed {seed}: {what}") } else { bar.set_message(what.to_owned()) }
    })?;
    bar.finish_and_clear();
    for skipped in &figures.skipped {
        eprintln!("SKIPPED: {skipped}");
    }
    for (seed, broken, text) in &figures.violations {
        eprintln!("VIOLATION ({broken:?}) in the round of --seed {seed}: {text}");
    }
    print(common.format, figures.json(), figures.to_string());
    Ok(figures.is_good())
}

fn bar(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn print(format: Format, json: serde_json::Value, text: String) {
    match format {
        Format::Json => println!("{json:#}"),
        Format::Text => println!("{text}"),
    }
}
