//! `rustle account balls-in-bins` and `rustle calibrate balls-in-bins`: by Monte Carlo.

use std::path::PathBuf;

use accounting::monte_carlo::BallsInBins;
use clap::Args;
use plan::Plan;

use super::errors::from_accounting;
use super::monte_carlo::{SamplesArgs, Shape};
use crate::output::{Answer, bad_use};

/// A plan whose records are each in one batch, drawn at random, of every epoch.
#[derive(Clone, Debug, Args)]
pub struct BallsInBinsArgs {
    /// The plan.toml to analyze
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Number of batches; each record is assigned to one of them
    #[arg(long, value_name = "B")]
    batches_per_epoch: u64,
    /// Number of epochs; each record's batch occurs once in each, and B·E is the plan's number of rows
    #[arg(long, value_name = "E")]
    epochs: u64,
    #[command(flatten)]
    samples: SamplesArgs,
}

impl Shape for BallsInBinsArgs {
    const NAME: &'static str = "balls-in-bins";
    type Mechanism = BallsInBins;

    fn question(&self) -> anyhow::Result<(Plan, BallsInBins)> {
        let plan = Plan::from_path(&self.plan)?;
        let batches = self.batches_per_epoch;
        let epochs = self.epochs;
        let rows = plan.iterations();
        if batches.checked_mul(epochs) != Some(rows) {
            let text =
                format!("{batches} batches per epoch × {epochs} epochs; allowed: {rows}, the plan's rows");
            return Err(bad_use(text));
        }
        let strategy = plan.running_strategy().map_err(bad_use)?;
        let mechanism = BallsInBins::new(&strategy, rows, batches).map_err(from_accounting)?;
        Ok((plan, mechanism))
    }

    fn samples(&self) -> &SamplesArgs {
        &self.samples
    }

    fn describe(&self, answer: Answer) -> Answer {
        answer.with("batches_per_epoch", self.batches_per_epoch).with("epochs", self.epochs)
    }
}
