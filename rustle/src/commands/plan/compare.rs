//! `rustle plan compare`: compares plans side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use accounting::failure;
use clap::Args;
use comfy_table::Table;
use serde_json::{Value, json};
use strategy::optimize::Target;

use super::workload::ReleaseArgs;
use crate::commands::errors::from_accounting;
use crate::commands::plan_file;
use crate::output::{self, Answer, Format, bad_use};
use crate::rates;
use crate::streams;

#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  \
    rustle plan compare plan.toml blt.toml --epsilon 2 --delta 1e-6")]
pub struct CompareArgs {
    /// Files of the plans; the loss of each is at its own participation
    #[arg(required = true, value_name = "FILE")]
    plans: Vec<PathBuf>,
    #[command(flatten)]
    release: ReleaseArgs,
    /// ε to calibrate every plan to, above 0 [default: keep the noise multipliers]
    #[arg(long, requires = "delta")]
    epsilon: Option<f64>,
    /// δ at which ε is computed, strictly between 0 and 1 [default: none]
    #[arg(long)]
    delta: Option<f64>,
    /// Skip the measurement of coordinates per second on this machine
    #[arg(long)]
    no_rates: bool,
}

/// Plans side by side in a table of 80 columns.
const PLANS_IN_80_COLUMNS: usize = 3;

/// The columns of the table.
const COLUMNS: [&str; 13] = [
    "plan",
    "mechanism",
    "iterations",
    "sensitivity",
    "rms_error",
    "max_error",
    "last_error",
    "loss",
    "noise_multiplier",
    "error",
    "epsilon",
    "state_bytes_per_parameter",
    "coordinates_per_second",
];

pub fn run(args: &CompareArgs, format: Format) -> anyhow::Result<ExitCode> {
    let rows: Vec<Value> = args.plans.iter().map(|path| args.row(path)).collect::<anyhow::Result<_>>()?;
    match format {
        Format::Json => Answer::new().with("plans", rows).print(format)?,
        Format::Table if output::is_wide() => streams::line(one_line_each(&rows))?,
        Format::Table => {
            rows.chunks(PLANS_IN_80_COLUMNS).try_for_each(|rows| streams::line(one_column_each(rows)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl CompareArgs {
    fn row(&self, path: &Path) -> anyhow::Result<Value> {
        let plan = plan_file::read(path)?;
        let strategy = plan.strategy();
        let n = plan.iterations();
        let workload = self.release.workload(n)?;
        let sensitivity = plan.accounted_sensitivity().map_err(bad_use)?;
        let errors = strategy.errors_on(n, &workload).map_err(bad_use)?;
        let target = Target::new(n, plan.participation(), self.release.objective(n)?);
        let counted = target.with_workload(workload).error(&strategy).map_err(bad_use)?;
        let noise_multiplier = match (self.epsilon, self.delta) {
            (Some(epsilon), Some(delta)) => {
                accounting::calibrate_gaussian(sensitivity.value, epsilon, delta).map_err(from_accounting)?
            }
            _ => plan.accounted_noise_multiplier(),
        };
        let own = |delta| accounting::gaussian::epsilon(delta, sensitivity.value / noise_multiplier);
        let epsilon = |delta| failure::at_delta(delta, plan.failure_probability(), own, |epsilon| *epsilon);
        let epsilon = self.delta.map(epsilon).transpose().map_err(from_accounting)?;
        let on_grid = plan.on_grid().is_some();
        let rate = (!self.no_rates).then(|| rates::coordinates_per_second(&strategy, n, on_grid)).flatten();
        Ok(json!({
            "plan": path.display().to_string(),
            "plan_digest": hex::encode(plan.digest()),
            "mechanism": strategy.name(),
            "iterations": n,
            "min_sep": plan.participation().min_sep,
            "max_participations": plan.participation().max_participations,
            "sensitivity": sensitivity.value,
            "sensitivity_exact": sensitivity.exact,
            "rms_error": errors.rms,
            "max_error": errors.max,
            "last_error": errors.last,
            "loss": counted * sensitivity.value,
            "noise_multiplier": noise_multiplier,
            "error": counted * noise_multiplier,
            "epsilon": epsilon,
            "delta": self.delta,
            "state_bytes_per_parameter": 4 * plan.state_slots(),
            "coordinates_per_second": rate,
        }))
    }
}

/// Returns a table with a line for each plan, for terminals of any width.
fn one_line_each(rows: &[Value]) -> Table {
    let mut table = output::empty_table();
    table.set_header(COLUMNS.map(|column| column.replace('_', " ")));
    for row in rows {
        table.add_row(COLUMNS.map(|column| cell(&row[column])));
    }
    table
}

/// Returns a table with a column for each plan, which fits 80 columns.
fn one_column_each(rows: &[Value]) -> Table {
    let mut table = output::empty_table();
    for (index, column) in COLUMNS.into_iter().enumerate() {
        let cells = rows.iter().map(|row| cell(&row[column]));
        let line: Vec<_> = std::iter::once(column.replace('_', " ")).chain(cells).collect();
        if index == 0 {
            table.set_header(line)
        } else {
            table.add_row(line)
        };
    }
    table
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if number >= 1e6 { format!("{number:.3e}") } else { format!("{number:.5}") }
        }
        other => other.to_string(),
    }
}
