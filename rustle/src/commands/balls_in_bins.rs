//! `rustle account balls-in-bins` and `rustle calibrate balls-in-bins`: by Monte Carlo.

use std::path::PathBuf;

use accounting::monte_carlo::BallsInBins;
use clap::Args;
use plan::Plan;

use super::account::unusable;
use super::monte_carlo::{self, SamplesArgs};
use crate::output::{Answer, bad_use};

const NAME: &str = "balls-in-bins";

/// A plan whose records are each in one batch, drawn at random, of every epoch.
#[derive(Clone, Debug, Args)]
pub struct Shape {
    /// The plan.toml whose strategy runs
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Batches, into one of which each record is put
    #[arg(long, value_name = "B")]
    batches_per_epoch: u64,
    /// Epochs, in each of which a record's batch comes once; B·E are the plan's rows
    #[arg(long, value_name = "E")]
    epochs: u64,
    #[command(flatten)]
    samples: SamplesArgs,
}

#[derive(Clone, Debug, Args)]
pub struct AccountArgs {
    #[command(flatten)]
    shape: Shape,
    /// Find ε at this δ
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
}

#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    shape: Shape,
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
}

impl Shape {
    fn question(&self) -> anyhow::Result<(Plan, BallsInBins)> {
        let plan = Plan::from_path(&self.plan)?;
        let (batches, epochs, rows) = (self.batches_per_epoch, self.epochs, plan.iterations());
        if batches.checked_mul(epochs) != Some(rows) {
            let text =
                format!("{batches} batches per epoch × {epochs} epochs; allowed: {rows}, the plan's rows");
            return Err(bad_use(text));
        }
        // The coefficients as they run, rounded, are the mechanism.
        let strategy = plan.running_strategy().map_err(bad_use)?;
        let mechanism = BallsInBins::new(&strategy, rows, batches).map_err(unusable)?;
        Ok((plan, mechanism))
    }

    fn describe(&self, answer: Answer, plan: &Plan) -> Answer {
        answer
            .with("batches_per_epoch", self.batches_per_epoch)
            .with("epochs", self.epochs)
            .with("mechanism", plan.mechanism().name())
            .with("neighbouring", "zero-out")
    }
}

pub fn account(args: &AccountArgs) -> anyhow::Result<Answer> {
    let (plan, mechanism) = args.shape.question()?;
    let sampling = args.shape.samples.sampling()?;
    let answer = monte_carlo::account(NAME, &mechanism, plan.noise_multiplier(), args.delta, sampling)?;
    Ok(args.shape.describe(answer, &plan))
}

pub fn calibrate(args: &CalibrateArgs) -> anyhow::Result<Answer> {
    let (plan, mechanism) = args.shape.question()?;
    let sampling = args.shape.samples.sampling()?;
    let answer = monte_carlo::calibrate(NAME, &mechanism, (args.epsilon, args.delta), sampling)?;
    Ok(args.shape.describe(answer, &plan))
}
