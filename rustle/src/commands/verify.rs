//! `rustle verify`: a row of a file against the oracle, bit for bit.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use indicatif::ProgressBar;
use noise_kernel::Oracle;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::branch::{BranchArgs, within};
use crate::npy::NpyReader;
use crate::output::{Answer, Format, bad_use};
use crate::values::Span;

/// Numbers the oracle may hold in one task: it keeps every row from 0 on.
const TASK: u64 = 1 << 21;

#[derive(Clone, Debug, clap::Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    branch: BranchArgs,
    /// Row to verify, counted from 0
    #[arg(long, value_name = "T")]
    step: u64,
    /// Coordinates a..b that the file contains
    #[arg(long, value_name = "A..B")]
    range: Span,
    /// Index in the file of the row to verify, counted from 0; required if the file has several rows
    #[arg(long, value_name = "R")]
    row: Option<u64>,
    /// The .npy file: float32, one or more rows of the range
    file: PathBuf,
}

/// Exit status 1 where a bit differs.
pub fn run(args: &VerifyArgs, format: Format) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let branch = args.branch.open()?;
    let range = args.range.0.clone();
    let step = args.step;
    let plan = &branch.plan;
    if step >= plan.iterations() {
        return Err(bad_use(format!("--step is {step}; allowed: 0 to {}", plan.iterations() - 1)));
    }
    if let Some(layout) = plan.layout() {
        within("--range", &range, layout.dimension(), "the dimension of the plan's layout")?;
    }
    let mut file = NpyReader::open(&args.file)?;
    file.seek_row(row_of(args, &file)?)?;
    let oracle = Oracle::new(
        branch.keys.clone(),
        branch.rounds,
        branch.coefficients.clone(),
        plan.iterations(),
        plan.scale(),
    )?;
    let difference = first_difference(&oracle, step, &range, &mut file)?;
    let equal = difference.is_none();
    if let Some(Difference { coordinate, file, oracle }) = &difference {
        eprintln!(
            "error: step {step} first differs at coordinate {coordinate}: {file} ({:08x}) in the file, {oracle} \
             ({:08x}) by the oracle",
            file.to_bits(),
            oracle.to_bits()
        );
    }
    Answer::new()
        .with("equal", equal)
        .with("step", step)
        .with("range", vec![range.start, range.end])
        .with("first_difference", difference.map_or(Value::Null, |d| d.to_json()))
        .with("seconds", start.elapsed().as_secs_f64())
        .print(format)?;
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The row of the file to look at; its shape must be the range's.
fn row_of(args: &VerifyArgs, file: &NpyReader) -> anyhow::Result<u64> {
    let coordinates = args.range.0.end - args.range.0.start;
    if file.coordinates != coordinates {
        let name = args.file.display();
        let found = file.coordinates;
        return Err(bad_use(format!(
            "--range has {coordinates} coordinates, but {name} has rows of {found}"
        )));
    }
    match (args.row, file.rows) {
        (None, 1) => Ok(0),
        (Some(row), rows) if row < rows => Ok(row),
        (None, rows) => Err(bad_use(format!("the file has {rows} rows: name one with --row"))),
        (Some(row), rows) => {
            Err(bad_use(format!("--row is {row}, but the file has {rows} rows, counted from 0")))
        }
    }
}

struct Difference {
    coordinate: u64,
    file: f32,
    oracle: f32,
}

impl Difference {
    fn to_json(&self) -> Value {
        json!({
            "coordinate": self.coordinate,
            "file": self.file,
            "file_bits": format!("{:08x}", self.file.to_bits()),
            "oracle": self.oracle,
            "oracle_bits": format!("{:08x}", self.oracle.to_bits()),
        })
    }
}

/// Recomputes the range a stretch at a time, several stretches at once, and stops after the first that differs.
fn first_difference(
    oracle: &Oracle,
    step: u64,
    range: &Range<u64>,
    file: &mut NpyReader,
) -> anyhow::Result<Option<Difference>> {
    let task = (TASK / (step + 1)).clamp(512, 1 << 16);
    let stretch = task * rayon::current_num_threads() as u64;
    let bar = ProgressBar::new(range.end - range.start).with_message("coordinates");
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at.saturating_add(stretch));
        let mut values = vec![0.0; usize::try_from(end - at)?];
        file.read(&mut values)?;
        let parts = values.par_chunks(usize::try_from(task)?).enumerate();
        let differences: Vec<Option<Difference>> = parts
            .map(|(part, values)| differs(oracle, step, at + part as u64 * task, values))
            .collect::<Result<_, _>>()?;
        if let Some(first) = differences.into_iter().flatten().next() {
            bar.finish_and_clear();
            return Ok(Some(first));
        }
        bar.inc(end - at);
        at = end;
    }
    bar.finish_and_clear();
    Ok(None)
}

fn differs(oracle: &Oracle, step: u64, start: u64, values: &[f32]) -> anyhow::Result<Option<Difference>> {
    let rows = oracle.rows(step..step + 1, start..start + values.len() as u64)?;
    let pairs = values.iter().zip(rows.iter().flatten());
    let different = |(index, (&file, &oracle)): (usize, (&f32, &f32))| {
        let coordinate = start + index as u64;
        (file.to_bits() != oracle.to_bits()).then_some(Difference { coordinate, file, oracle })
    };
    Ok(pairs.enumerate().find_map(different))
}
