//! `bench ledger`: the time and the memory of opening a ledger, which checks all of its entries, as bound rows grow.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ::ledger::{JobRecord, JobState, Ledger, ShardRecord};
use anyhow::{Context, ensure};
use comfy_table::Table;
use indicatif::{ProgressBar, ProgressStyle};
use proto::{Commitment, CoordinateRange, JobId, Lineage, Nonce, RowRange};
use reproduce::measure::{Machine, Spread};
use serde::{Deserialize, Serialize};

use crate::arguments;
use crate::comparison::spread;
use crate::output::{self, Output};
use crate::serve::usage;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Bound rows, one ledger for each number
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000")]
    rows: Vec<u64>,
    /// Rows of one call that binds
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    rows_per_call: u64,
    /// Openings of each ledger, each in a process of its own
    #[arg(long, value_parser = arguments::positive, default_value_t = 5)]
    repeats: usize,
    /// Where the ledgers are written [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// One opening, in this process.
#[derive(clap::Args, Debug)]
pub struct OpenArgs {
    file: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Opening {
    seconds: f64,
    peak_bytes: u64,
}

#[derive(Serialize)]
struct Report {
    rows_per_call: u64,
    ledgers: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    rows: u64,
    file_bytes: u64,
    open_seconds: Spread,
    /// Of the process that opens it and does nothing else.
    peak_bytes: Spread,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = match &args.folder {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    let folder = folder.context("make a folder for ledgers")?;
    let measured = args.rows.iter().map(|rows| measure(args, *rows, folder.path()));
    let ledgers = measured.collect::<anyhow::Result<Vec<Row>>>()?;
    let title = format!("Opening a ledger, {} rows a call", args.rows_per_call);
    let table = table(&ledgers);
    let report = Report { rows_per_call: args.rows_per_call, ledgers };
    args.output.give("ledger", &Machine::current(1), &report, &[(title, table)], &[])
}

/// Opens the ledger, and prints what that took as JSON.
pub fn open(args: &OpenArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let _ledger = Ledger::open(&args.file)?;
    let seconds = started.elapsed().as_secs_f64();
    let peak_bytes = usage::memory(std::process::id(), "VmHWM:")?;
    println!("{}", serde_json::to_string(&Opening { seconds, peak_bytes })?);
    Ok(())
}

fn measure(args: &Args, rows: u64, folder: &Path) -> anyhow::Result<Row> {
    let file = folder.join(format!("ledger-{rows}.redb"));
    write(&file, rows, args.rows_per_call)?;
    let mut openings = Vec::new();
    for _ in 0..args.repeats {
        let program = std::env::current_exe().context("this program's own path")?;
        let output = Command::new(program).arg("ledger-open").arg(&file).output()?;
        ensure!(output.status.success(), "opening failed: {}", String::from_utf8_lossy(&output.stderr));
        openings.push(serde_json::from_slice::<Opening>(&output.stdout)?);
    }
    let file_bytes = std::fs::metadata(&file)?.len();
    std::fs::remove_file(&file)?;
    let seconds: Vec<f64> = openings.iter().map(|opening| opening.seconds).collect();
    let peaks: Vec<f64> = openings.iter().map(|opening| opening.peak_bytes as f64).collect();
    Ok(Row { rows, file_bytes, open_seconds: spread(&seconds)?, peak_bytes: spread(&peaks)? })
}

/// Writes a ledger of one job with so many bound rows.
fn write(file: &Path, rows: u64, rows_per_call: u64) -> anyhow::Result<()> {
    Ledger::init(file, Nonce::from_bytes([7; 32]))?;
    let ledger = Ledger::open(file)?;
    let job = JobId::new("bench")?;
    ledger.create_job(&record(&job, rows), &[shard()?])?;
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} rows, {eta} left")?;
    let bar = ProgressBar::new(rows).with_style(style).with_message("binding");
    let mut start = 0;
    while start < rows {
        let end = rows.min(start + rows_per_call);
        let commitments: Vec<Commitment> =
            (start..end).map(|row| Commitment::of_text(&format!("step {row}"))).collect();
        ledger.bind(&job, 0, RowRange::new(start, end)?, &commitments)?;
        bar.set_position(end);
        start = end;
    }
    bar.finish_and_clear();
    Ok(())
}

fn record(job: &JobId, iterations: u64) -> JobRecord {
    let nonce = Nonce::from_bytes([9; 32]);
    JobRecord {
        job: job.clone(),
        nonce,
        plan_toml: "mechanism = \"blt\"".to_owned(),
        plan_digest: [1; 32],
        dimension: 1000,
        layout_digest: [3; 32],
        iterations,
        mechanism: "blt".to_owned(),
        key_commitment: [2; 32],
        branch: 0,
        lineage: Lineage::of_job(nonce),
        shards: 1,
        layout_epoch: 0,
        state: JobState::Running,
    }
}

fn shard() -> anyhow::Result<ShardRecord> {
    Ok(ShardRecord { shard: 0, range: CoordinateRange::new(0, 1000)?, epoch: 0, owner: None })
}

fn table(rows: &[Row]) -> Table {
    let rows = rows.iter().map(|row| {
        vec![
            row.rows.to_string(),
            format!("{:.0}", row.file_bytes as f64 / 1e6),
            row.open_seconds.shown(1.0),
            row.peak_bytes.shown(1_048_576.0),
        ]
    });
    output::table(&["bound rows", "file, MB", "open, s", "peak memory, MiB"], rows)
}
