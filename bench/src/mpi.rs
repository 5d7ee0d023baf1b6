//! `bench mpi`: rows that are ready, from a noise rank to a training rank on this machine, beside bare MPI sends of the
//! same sizes and one copy of memory, in turn in one launch. `make bench-mpi` builds the program of its two ranks
//! (`mpi/examples/mpi_rates.rs`), which alone needs MPI.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use comfy_table::Table;
use plan::Mechanism;
use plot::{Axis, Chart};
use serde::{Deserialize, Serialize};

use crate::arguments;
use crate::cases::plan;
use crate::comparison::spread;
use crate::output::{self, Output};
use reproduce::measure::Machine;
use reproduce::measure::{Spread, ratios};

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Coordinates of a row
    #[arg(long, value_parser = arguments::coordinates, default_value_t = 10_000_000)]
    dimension: u64,
    /// Rows fetched one by one in each round, each way: no more than are made at once
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=8))]
    rows: u64,
    /// Rounds of all measurements in turn
    #[arg(long, value_parser = arguments::positive, default_value_t = 9)]
    repeats: usize,
    /// The program of the two ranks
    #[arg(long, env = "RUSTLE_MPI_RATES", default_value = "target/mpi/mpi_rates")]
    program: PathBuf,
}

/// Bytes a second, one a round.
#[derive(Deserialize)]
struct Rates {
    bare: Vec<f64>,
    sent: Vec<f64>,
    placed: Vec<f64>,
    copied: Vec<f64>,
}

#[derive(Serialize)]
struct Report {
    dimension: u64,
    rows: u64,
    /// Bytes a second.
    bare_send: Spread,
    delivered: Spread,
    /// Round by round.
    delivered_of_bare_send: Spread,
    copy: Spread,
    window: Spread,
    /// Round by round.
    window_of_copy: Spread,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let rates = measure(args)?;
    let report = Report {
        dimension: args.dimension,
        rows: args.rows,
        bare_send: spread(&rates.bare)?,
        delivered: spread(&rates.sent)?,
        delivered_of_bare_send: spread(&ratios(&rates.sent, &rates.bare))?,
        copy: spread(&rates.copied)?,
        window: spread(&rates.placed)?,
        window_of_copy: spread(&ratios(&rates.placed, &rates.copied))?,
    };
    args.output.give(
        "mpi",
        &Machine::current(arguments::cores()),
        &report,
        &report.tables(),
        &report.charts(),
    )
}

fn measure(args: &Args) -> anyhow::Result<Rates> {
    let program = &args.program;
    ensure!(program.exists(), "{} is missing: `make bench-mpi` builds it", program.display());
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    // Rows of each round twice, and one round before.
    let iterations = 2 * args.rows * (args.repeats as u64 + 2);
    fs::write(file("plan.toml"), plan(Mechanism::Identity, iterations, iterations)?.to_toml_string()?)?;
    fs::write(file("job.key"), *b"0123456789abcdefghijklmnopqrstuv")?;
    ::coordinator::init_ledger(folder.path())?;
    fs::set_permissions(file("job.key"), fs::Permissions::from_mode(0o400))?;
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", "2"]).arg(program);
    // A window of twice the rows: while one half is fetched, none is made.
    let numbers = [
        ("--rows", args.rows),
        ("--rounds", args.repeats as u64),
        ("--dimension", args.dimension),
        ("--ahead-rows", 2 * args.rows),
        ("--threads", arguments::cores() as u64),
    ];
    command.args(numbers.iter().flat_map(|(flag, number)| [flag.to_string(), number.to_string()]));
    let files = [("--plan", "plan.toml"), ("--key-file", "job.key"), ("--ledger", "ledger.redb")];
    for (flag, name) in files {
        command.arg(flag).arg(file(name));
    }
    command.args(["--serve", "--checkpoint-url", "none"]);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.env("RUSTLE_WORKER_AHEAD_BYTES", "64GiB");
    let ended = command.output().context("start mpirun: tests/setup/mpi.sh brings it")?;
    let out = String::from_utf8_lossy(&ended.stdout);
    let err = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "mpirun: {}\n{err}", ended.status);
    let line = out.lines().find(|line| line.starts_with('{')).context("the ranks measured nothing")?;
    Ok(serde_json::from_str(line)?)
}

impl Report {
    fn tables(&self) -> Vec<(String, Table)> {
        let percent = |spread: &Spread| format!("{} %", spread.shown(0.01));
        let rows = [
            ("bare MPI send", &self.bare_send, String::new()),
            ("rustle over MPI", &self.delivered, percent(&self.delivered_of_bare_send) + " of bare send"),
            ("copy of memory, all threads", &self.copy, String::new()),
            ("rustle, shared window", &self.window, percent(&self.window_of_copy) + " of a copy"),
        ];
        let rows = rows.into_iter().map(|(name, rate, share)| vec![name.to_owned(), rate.shown(1e9), share]);
        let title = format!(
            "Rows of {} coordinates, {} a round; median and range of {} rounds",
            output::round(self.dimension),
            self.rows,
            self.bare_send.repeats
        );
        vec![(title, output::table(&["", "GB/s", ""], rows))]
    }

    fn charts(&self) -> Vec<Chart> {
        let named = [
            ("bare MPI send", &self.bare_send),
            ("rustle over MPI", &self.delivered),
            ("copy", &self.copy),
            ("shared window", &self.window),
        ];
        let title = format!("Rows of {} coordinates over MPI, on one machine", output::round(self.dimension));
        let categories = named.iter().map(|(name, _)| (*name).to_owned()).collect();
        let bars = named.iter().map(|(_, rate)| Some(rate.drawn(1e9))).collect();
        vec![Chart::bars(title, Axis::linear("GB/s"), categories, [("delivered", bars)], None)]
    }
}
