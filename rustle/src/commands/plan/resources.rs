//! `rustle plan resources`: the memory, network, storage and time that a plan's workers need, each with its formula.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::Table;
use plan::Plan;
use serde_json::{Map, Value};

use super::sizing::{Setting, Sizing};
use crate::commands::dimension;
use crate::commands::plan_file;
use crate::output::{self, Answer, Format, bad_use};
use crate::rates;
use crate::streams;
use crate::values::Bytes;

#[derive(Clone, Debug, Args)]
pub struct ResourcesArgs {
    /// File of the plan
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Number of coordinates [default: from the plan's layout]
    #[arg(long, value_name = "M")]
    dimension: Option<u64>,
    /// Number of workers that share the parameter vector, one shard each
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    /// Rows per second that the job fetches, above 0
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    rows_per_second: f64,
    /// Maximum number of rows generated ahead of demand: the workers' --ahead-rows
    #[arg(long, value_name = "ROWS", default_value_t = 8)]
    ahead_rows: u64,
    /// Memory for rows generated ahead of demand: the workers' --ahead-bytes
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    ahead_bytes: Bytes,
    /// Memory for past normals of a banded C⁻¹: the workers' --history-bytes
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    history_bytes: Bytes,
    /// Memory for copies of state that are written as checkpoints: the workers' --snapshot-bytes
    #[arg(long, value_name = "BYTES", default_value = "4GiB")]
    snapshot_bytes: Bytes,
    /// Bytes per second that the checkpoint store takes from one worker, above 0
    #[arg(long, value_name = "BYTES", default_value = "500MiB")]
    store_bandwidth: Bytes,
    /// Print a patch for the workers of deploy/kubernetes instead
    #[arg(long)]
    kubernetes: bool,
    /// Coordinates per second that a worker generates, above 0 [default: measured on this machine]
    #[arg(long, value_name = "C")]
    coordinates_per_second: Option<f64>,
}

pub fn run(args: &ResourcesArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = plan_file::read(&args.plan)?;
    let sizing = Sizing::new(&plan, args.setting(&plan)?)?;
    match format {
        _ if args.kubernetes => streams::line(format_args!("{:#}", sizing.kubernetes_patch(args.workers)))?,
        Format::Json => answer(&plan, &sizing).print(format)?,
        Format::Table => streams::line(table(&sizing))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ResourcesArgs {
    fn setting(&self, plan: &Plan) -> anyhow::Result<Setting> {
        let positive = |name: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(value)
            } else {
                Err(bad_use(format!("{name} is {value}; allowed: above 0")))
            }
        };
        let rate = match self.coordinates_per_second {
            Some(rate) => Some(positive("--coordinates-per-second", rate)?),
            None => {
                let on_grid = plan.on_grid().is_some();
                rates::coordinates_per_second(&plan.strategy(), plan.iterations(), on_grid)
            }
        };
        Ok(Setting {
            dimension: dimension::resolve(self.dimension, plan)?,
            workers: self.workers,
            rows_per_second: positive("--rows-per-second", self.rows_per_second)?,
            ahead_rows: self.ahead_rows,
            ahead_bytes: self.ahead_bytes.0,
            history_bytes: self.history_bytes.0,
            snapshot_bytes: self.snapshot_bytes.0,
            store_bandwidth: positive("--store-bandwidth", self.store_bandwidth.0 as f64)?,
            coordinates_per_second: rate,
        })
    }
}

/// Returns every figure by name, and its formula.
fn answer(plan: &Plan, sizing: &Sizing) -> Answer {
    let mut answer = Answer::new();
    let mut formulas = Map::new();
    answer =
        answer.with("plan_digest", hex::encode(plan.digest())).with("mechanism", plan.mechanism().name());
    for line in &sizing.lines {
        answer = answer.with(line.name, line.json());
        formulas.insert(line.name.to_owned(), Value::from(line.formula));
    }
    answer.with("kubernetes", sizing.kubernetes()).with("formulas", formulas)
}

fn table(sizing: &Sizing) -> Table {
    let mut table = output::table(&["", "value", "formula"]);
    for line in &sizing.lines {
        table.add_row([line.name.replace('_', " "), line.shown(), line.formula.to_owned()]);
    }
    table
}
