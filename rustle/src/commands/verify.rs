//! `rustle verify`: compares a row of a file with the reference implementation, bit for bit.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use noise_kernel::Oracle;
use noise_kernel::grid::GridOracle;
use proto::NoiseId;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::branch::{BranchArgs, within};
use crate::npy::{NpyReader, Number};
use crate::output::{Answer, Format, bad_use, status_of_check};
use crate::progress::Progress;
use crate::streams;
use crate::values::Span;

/// Numbers that the oracle may hold in one task. It keeps every row from 0 on.
const TASK: u64 = 1 << 21;

#[derive(Clone, Debug, clap::Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    branch: BranchArgs,
    /// Noise id of the job's branch, as `rustle job show`, a report or `rustle noise` prints it
    #[arg(long, value_name = "ID")]
    noise_id: NoiseId,
    /// Row to verify, counted from 0
    #[arg(long, value_name = "T")]
    step: u64,
    /// Coordinates a..b of the file's rows, counted from 0
    #[arg(long, value_name = "A..B")]
    range: Span,
    /// Index of the row in the file, counted from 0 [default: the only row]
    #[arg(long, value_name = "R")]
    row: Option<u64>,
    /// File to verify: .npy of float32, or of int32 where the plan is on a grid, with one or more rows
    file: PathBuf,
}

/// Compares the row. The exit status is 1 where a bit differs.
pub fn run(args: &VerifyArgs, format: Format) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let branch = args.branch.open(&args.noise_id)?;
    let range = args.range.0.clone();
    let step = args.step;
    let plan = &branch.plan;
    if step >= plan.iterations() {
        return Err(bad_use(format!("--step is {step}; allowed: 0 to {}", plan.iterations() - 1)));
    }
    within("--range", &range, branch.dimension, "the dimension")?;
    let rounds = branch.rounds;
    let keys = branch.keys.clone();
    let difference = match branch.grid()? {
        Some(mechanism) => compare::<i32>(args, &GridOracle::new(keys, rounds, mechanism))?,
        None => {
            let coefficients = branch.coefficients()?;
            compare::<f32>(args, &Oracle::new(keys, rounds, coefficients, plan.iterations(), plan.scale())?)?
        }
    };
    let is_equal = difference.is_none();
    let printed = Answer::new()
        .with("equal", is_equal)
        .with("step", step)
        .with("range", vec![range.start, range.end])
        .with("first_difference", difference.unwrap_or(Value::Null))
        .with("seconds", start.elapsed().as_secs_f64())
        .print(format);
    status_of_check(is_equal, printed)
}

/// What makes rows of the reference implementation.
trait Reference<T>: Sync {
    fn row(&self, step: u64, range: Range<u64>) -> anyhow::Result<Vec<T>>;
}

impl Reference<f32> for Oracle {
    fn row(&self, step: u64, range: Range<u64>) -> anyhow::Result<Vec<f32>> {
        Ok(self.rows(step..step + 1, range)?.concat())
    }
}

impl Reference<i32> for GridOracle {
    fn row(&self, step: u64, range: Range<u64>) -> anyhow::Result<Vec<i32>> {
        Ok(self.rows(step..step + 1, range)?.concat())
    }
}

/// Compares the row of the file. Returns the first difference, which is also printed.
fn compare<T: Number>(args: &VerifyArgs, oracle: &dyn Reference<T>) -> anyhow::Result<Option<Value>> {
    let mut file = NpyReader::<T>::open(&args.file)?;
    file.seek_row(row_of(args, &file)?)?;
    let difference = first_difference(oracle, args.step, &args.range.0, &mut file)?;
    Ok(difference.map(|Difference { coordinate, file, oracle }| {
        streams::note(format_args!(
            "error: step {} first differs at coordinate {coordinate}: {} ({:08x}) in the file, {} ({:08x}) in the \
             reference implementation",
            args.step,
            file.to_json(),
            file.to_word(),
            oracle.to_json(),
            oracle.to_word()
        ));
        json!({
            "coordinate": coordinate,
            "file": file.to_json(),
            "file_bits": format!("{:08x}", file.to_word()),
            "oracle": oracle.to_json(),
            "oracle_bits": format!("{:08x}", oracle.to_word()),
        })
    }))
}

/// Returns the index of the file's row. Errors: rows of another length than the range, or an index out of range.
fn row_of<T>(args: &VerifyArgs, file: &NpyReader<T>) -> anyhow::Result<u64> {
    let coordinates = args.range.0.end - args.range.0.start;
    if file.coordinates != coordinates {
        let name = args.file.display();
        let found = file.coordinates;
        return Err(bad_use(format!(
            "--range has {coordinates} coordinates; allowed: {found}, as in {name}"
        )));
    }
    match (args.row, file.rows) {
        (_, 0) => bail!("{} has no rows", args.file.display()),
        (None, 1) => Ok(0),
        (Some(row), rows) if row < rows => Ok(row),
        (None, rows) => Err(bad_use(format!(
            "--row is missing, and the file has {rows} rows; allowed: 0 to {}",
            rows.saturating_sub(1)
        ))),
        (Some(row), rows) => {
            Err(bad_use(format!("--row is {row}; allowed: 0 to {}", rows.saturating_sub(1))))
        }
    }
}

struct Difference<T> {
    coordinate: u64,
    file: T,
    oracle: T,
}

/// Recomputes the range in stretches, each in parallel tasks, and stops after the first stretch that differs.
fn first_difference<T: Number>(
    oracle: &dyn Reference<T>,
    step: u64,
    range: &Range<u64>,
    file: &mut NpyReader<T>,
) -> anyhow::Result<Option<Difference<T>>> {
    let task = (TASK / (step + 1)).clamp(512, 1 << 16);
    let stretch = task * rayon::current_num_threads() as u64;
    let bar = Progress::bar(range.end - range.start, "coordinates");
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at.saturating_add(stretch));
        let mut values = vec![T::default(); usize::try_from(end - at)?];
        file.read(&mut values)?;
        let parts = values.par_chunks(usize::try_from(task)?).enumerate();
        let differences: Vec<Option<Difference<T>>> = parts
            .map(|(part, values)| differs(oracle, step, at + part as u64 * task, values))
            .collect::<Result<_, _>>()?;
        if let Some(first) = differences.into_iter().flatten().next() {
            return Ok(Some(first));
        }
        bar.inc(end - at);
        at = end;
    }
    Ok(None)
}

fn differs<T: Number>(
    oracle: &dyn Reference<T>,
    step: u64,
    start: u64,
    values: &[T],
) -> anyhow::Result<Option<Difference<T>>> {
    let row = oracle.row(step, start..start + values.len() as u64)?;
    let different = |(index, (&file, &oracle)): (usize, (&T, &T))| {
        let coordinate = start + index as u64;
        (file.to_word() != oracle.to_word()).then_some(Difference { coordinate, file, oracle })
    };
    Ok(values.iter().zip(&row).enumerate().find_map(different))
}
