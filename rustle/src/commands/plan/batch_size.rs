//! `rustle plan batch-size`: which batch size and how many rounds to take, for a data set and a number of gradients.

use std::process::ExitCode;

use accounting::Neighbouring;
use clap::Args;
use planner::{BatchSizeEntry, BatchSizeRequest, PlannerError, batch_sizes, recommended_batch_size};

use super::suggest::percent;
use crate::commands::errors::from_accounting;
use crate::output::{self, Answer, Format, bad_use};
use crate::progress::Progress;
use crate::streams;

#[derive(Clone, Debug, Args)]
pub struct BatchSizeArgs {
    /// Number of records in the data set
    #[arg(long, value_name = "RECORDS")]
    dataset_size: u64,
    /// Number of gradients of one record that there is compute for: batch size × rounds
    #[arg(long, value_name = "GRADIENTS")]
    gradients: u64,
    /// ε to satisfy, above 0
    #[arg(long)]
    epsilon: f64,
    /// δ to satisfy, strictly between 0 and 1
    #[arg(long)]
    delta: f64,
    /// Largest excess over the least noise for which more rounds are preferred, in per cent, such as 10%
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = percent)]
    within: f64,
}

pub fn run(args: &BatchSizeArgs, format: Format) -> anyhow::Result<ExitCode> {
    let progress = Progress::spinner("calibrating every batch size");
    let entries = batch_sizes(&args.request()).map_err(refusal)?;
    drop(progress);
    let place = recommended_batch_size(&entries, args.within).unwrap_or_default();
    let answer = args.answer(&entries[place]);
    match format {
        Format::Json => answer.with("batch_sizes", serde_json::to_value(&entries)?).print(format)?,
        Format::Table => {
            streams::line(table(&entries, place))?;
            answer.print(format)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl BatchSizeArgs {
    fn request(&self) -> BatchSizeRequest {
        BatchSizeRequest {
            dataset_size: self.dataset_size,
            gradients: self.gradients,
            epsilon: self.epsilon,
            delta: self.delta,
            neighbouring: Neighbouring::ZeroOut,
        }
    }

    fn answer(&self, chosen: &BatchSizeEntry) -> Answer {
        let reason = format!(
            "the smallest batch whose noise in the mean of all rounds is at most {:.0} % above the least: smaller batches pay for their \
             rounds with noise, larger ones give rounds away",
            100.0 * self.within
        );
        Answer::new()
            .with("batch_size", chosen.batch_size)
            .with("iterations", chosen.iterations)
            .with("sampling_probability", chosen.sampling_probability)
            .with("noise_multiplier", chosen.noise_multiplier)
            .with("noise_batch_ratio", chosen.noise_batch_ratio)
            .with("reason", reason)
    }
}

fn refusal(error: PlannerError) -> anyhow::Error {
    match error {
        PlannerError::Accounting(error) => from_accounting(error),
        other => bad_use(other),
    }
}

fn table(entries: &[BatchSizeEntry], chosen: usize) -> comfy_table::Table {
    let header = ["", "batch size", "iterations", "noise multiplier", "noise-batch ratio", "noise of mean"];
    let mut table = output::table(&header);
    for (place, entry) in entries.iter().enumerate() {
        table.add_row([
            if place == chosen { "→".to_owned() } else { String::new() },
            entry.batch_size.to_string(),
            entry.iterations.to_string(),
            format!("{:.5}", entry.noise_multiplier),
            format!("{:.3e}", entry.noise_batch_ratio),
            format!("{:.3e}", entry.noise_of_mean_update),
        ]);
    }
    table
}
