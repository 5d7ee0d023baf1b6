//! `rustle plan resources`: what workers of a plan need of memory, network, storage and time, and by which formula.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use plan::{Layout, Plan};
use serde_json::{Map, Value};

use super::sizing::{Setting, Sizing};
use crate::commands::dimension;
use crate::output::{Answer, Format, bad_use};
use crate::rates;
use crate::values::Bytes;

#[derive(Clone, Debug, Args)]
pub struct ResourcesArgs {
    /// The plan.toml
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Number of coordinates; omit if the plan has a layout
    #[arg(long, value_name = "M")]
    dimension: Option<u64>,
    /// Workers that share the parameter vector, one shard each
    #[arg(long, value_name = "W", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    /// Rows per second that the job consumes; determines the CPU and network required
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    rows_per_second: f64,
    /// As the workers' flag
    #[arg(long, value_name = "ROWS", default_value_t = 8)]
    ahead_rows: u64,
    /// As the workers' flag
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    ahead_bytes: Bytes,
    /// As the workers' flag
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    history_bytes: Bytes,
    /// What the checkpoint store takes from one worker in a second
    #[arg(long, value_name = "BYTES", default_value = "500MiB")]
    store_bandwidth: Bytes,
    /// Print a patch of deploy/kubernetes' workers instead: replicas, memory, CPU, and how long a start may take
    #[arg(long)]
    kubernetes: bool,
    /// Coordinates that a worker makes a second; measured on this machine where not given
    #[arg(long, value_name = "C")]
    coordinates_per_second: Option<f64>,
}

pub fn run(args: &ResourcesArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = Plan::from_path(&args.plan)?;
    let sizing = Sizing::of(&plan, args.setting(&plan)?).map_err(bad_use)?;
    match format {
        _ if args.kubernetes => println!("{:#}", sizing.kubernetes_patch(args.workers)),
        Format::Json => answer(&plan, &sizing).print(format)?,
        Format::Table => println!("{}", table(&sizing)),
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
        let dimension = dimension::resolve(self.dimension, plan)?;
        if dimension > Layout::MAX_DIMENSION {
            let most = Layout::MAX_DIMENSION;
            return Err(bad_use(format!("--dimension is {dimension}; allowed: 1 to {most}")));
        }
        let rate = match self.coordinates_per_second {
            Some(rate) => Some(positive("--coordinates-per-second", rate)?),
            None => rates::coordinates_per_second(&plan.strategy(), plan.iterations()),
        };
        Ok(Setting {
            dimension,
            workers: self.workers,
            rows_per_second: positive("--rows-per-second", self.rows_per_second)?,
            ahead_rows: self.ahead_rows,
            ahead_bytes: self.ahead_bytes.0,
            history_bytes: self.history_bytes.0,
            store_bandwidth: positive("--store-bandwidth", self.store_bandwidth.0 as f64)?,
            coordinates_per_second: rate,
        })
    }
}

/// Numbers by name, and a formula for each.
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
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["", "value", "formula"]);
    for line in &sizing.lines {
        table.add_row([line.name.replace('_', " "), line.shown(), line.formula.to_owned()]);
    }
    table
}
