//! `rustle account balls-in-bins` and `rustle calibrate balls-in-bins`: by Monte Carlo.

use std::path::PathBuf;

use accounting::monte_carlo::{BallsInBins, Estimate, Sampling};
use clap::Args;
use plan::Plan;

use super::account::unusable;
use crate::output::{Answer, bad_use};

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
    /// Samples for each figure
    #[arg(long, value_name = "N", default_value_t = Sampling::default().samples)]
    samples: u64,
    /// Seed of the samples, drawn afresh unless given; one chosen by its answer promises nothing
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
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

/// What is asked, ready to sample.
struct Question {
    plan: Plan,
    mechanism: BallsInBins,
    sampling: Sampling,
}

impl Shape {
    fn question(&self) -> anyhow::Result<Question> {
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
        let seed = self.seed.map_or_else(fresh_seed, Ok)?;
        Ok(Question { plan, mechanism, sampling: Sampling { samples: self.samples, seed } })
    }

    fn describe(&self, answer: Answer, question: &Question) -> Answer {
        answer
            .with("samples", self.samples)
            .with("seed", question.sampling.seed)
            .with("batches_per_epoch", self.batches_per_epoch)
            .with("epochs", self.epochs)
            .with("mechanism", question.plan.mechanism().name())
            .with("neighbouring", "zero-out")
    }
}

/// 53 bits, which every reader of JSON keeps.
pub fn fresh_seed() -> anyhow::Result<u64> {
    Ok(getrandom::u64()? >> 11)
}

/// δ at the ε of an answer, as other samples have it; the bound fails with probability δ at most.
fn verified(answer: Answer, worse: Estimate, upper: f64) -> Answer {
    answer
        .with("delta_estimate", worse.delta)
        .with("standard_error", worse.standard_error)
        .with("delta_upper_bound", upper)
}

pub fn account(args: &AccountArgs) -> anyhow::Result<Answer> {
    let question = args.shape.question()?;
    let sigma = question.plan.noise_multiplier();
    let found = question.mechanism.epsilon(sigma, args.delta, question.sampling).map_err(unusable)?;
    let answer = Answer::new()
        .with("account", "balls-in-bins")
        .with("epsilon", found.epsilon)
        .with("delta", args.delta)
        .with("noise_multiplier", sigma);
    let answer = verified(answer, found.delta.worse(), found.delta.upper(args.delta));
    Ok(args.shape.describe(answer, &question))
}

pub fn calibrate(args: &CalibrateArgs) -> anyhow::Result<Answer> {
    let question = args.shape.question()?;
    let (epsilon, delta) = (args.epsilon, args.delta);
    let made = question.mechanism.calibrate(epsilon, delta, question.sampling).map_err(unusable)?;
    let answer = Answer::new()
        .with("account", "balls-in-bins")
        .with("epsilon", epsilon)
        .with("delta", delta)
        .with("noise_multiplier", made.noise_multiplier)
        .with("release", made.verdict.releases());
    let answer = verified(answer, made.verdict.delta().worse(), made.verdict.upper());
    Ok(args.shape.describe(answer, &question))
}
