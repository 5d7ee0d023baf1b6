//! `rustle account balls-in-bins` and `rustle calibrate balls-in-bins`: by Monte Carlo.

use std::path::PathBuf;

use accounting::monte_carlo::BallsInBins;
use clap::Args;
use plan::Plan;

use super::errors::from_accounting;
use super::monte_carlo::{SamplesArgs, Shape};
use crate::commands::plan_file;
use crate::output::{Answer, bad_use};

/// A plan under balls-in-bins sampling: each record is in one random batch per epoch.
#[derive(Clone, Debug, Args)]
pub struct BallsInBinsArgs {
    /// File of the plan
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Number of batches per epoch; each record is in one of them
    #[arg(long, value_name = "B")]
    batches_per_epoch: u64,
    /// Number of epochs; B·E must be the plan's number of rounds
    #[arg(long, value_name = "E")]
    epochs: u64,
    #[command(flatten)]
    samples: SamplesArgs,
}

impl BallsInBinsArgs {
    pub fn new(plan: PathBuf, batches_per_epoch: u64, epochs: u64, samples: SamplesArgs) -> Self {
        Self { plan, batches_per_epoch, epochs, samples }
    }
}

impl Shape for BallsInBinsArgs {
    const NAME: &'static str = "balls-in-bins";
    type Mechanism = BallsInBins;

    fn question(&self) -> anyhow::Result<(Plan, BallsInBins)> {
        let plan = plan_file::read(&self.plan)?;
        let batches = self.batches_per_epoch;
        let epochs = self.epochs;
        let rows = plan.iterations();
        if batches.checked_mul(epochs) != Some(rows) {
            return Err(bad_use(format!(
                "--batches-per-epoch {batches} × --epochs {epochs}; allowed: a product of {rows}, the plan's rounds"
            )));
        }
        let strategy = plan.sampled_strategy().map_err(bad_use)?;
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
