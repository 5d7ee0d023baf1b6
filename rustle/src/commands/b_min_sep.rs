//! `rustle account b-min-sep` and `rustle calibrate b-min-sep`: by Monte Carlo.

use std::path::PathBuf;

use accounting::monte_carlo::BMinSep;
use clap::Args;
use plan::Plan;

use super::account::unusable;
use super::monte_carlo::{self, SamplesArgs};
use crate::output::{Answer, bad_use};

const NAME: &str = "b-min-sep";

/// A plan whose records join at random, but for the rounds after each that they took.
#[derive(Clone, Debug, Args)]
pub struct Shape {
    /// The plan.toml whose strategy runs, of at most B bands
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Rounds i < j of a record satisfy j − i ≥ B
    #[arg(long, value_name = "B")]
    min_sep: u64,
    /// Probability with which a record that may joins a round
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: f64,
    /// Batches begin stationary instead of with everybody free to join
    #[arg(long)]
    warm_start: bool,
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
    fn question(&self) -> anyhow::Result<(Plan, BMinSep)> {
        let plan = Plan::from_path(&self.plan)?;
        // The coefficients as they run, rounded, are the mechanism.
        let strategy = plan.running_strategy().map_err(bad_use)?;
        let Self { min_sep, sampling_probability, warm_start, .. } = *self;
        let mechanism = BMinSep::new(&strategy, plan.iterations(), min_sep, sampling_probability, warm_start)
            .map_err(unusable)?;
        Ok((plan, mechanism))
    }

    fn describe(&self, answer: Answer, plan: &Plan) -> Answer {
        answer
            .with("min_sep", self.min_sep)
            .with("sampling_probability", self.sampling_probability)
            .with("warm_start", self.warm_start)
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
