//! Accounts by Monte Carlo, whatever the way in which records take part.

use accounting::monte_carlo::{Estimate, Pair, SampleBudget};
use clap::Args;
use plan::Plan;

use super::errors::from_accounting;
use crate::output::Answer;

#[derive(Clone, Debug, Args)]
pub struct SamplesArgs {
    /// Samples for each figure
    #[arg(long, value_name = "N", default_value_t = SampleBudget::default().samples)]
    samples: u64,
    /// Seed of the samples [default: random]; a seed chosen for its result voids the guarantee
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl SamplesArgs {
    fn sampling(&self) -> anyhow::Result<SampleBudget> {
        Ok(SampleBudget { samples: self.samples, seed: self.seed.map_or_else(fresh_seed, Ok)? })
    }
}

/// 53 bits, which every reader of JSON keeps.
pub fn fresh_seed() -> anyhow::Result<u64> {
    Ok(getrandom::u64()? >> 11)
}

/// How a plan's records take part, as a user says it.
pub trait Shape: Args {
    const NAME: &'static str;
    type Mechanism: Pair;

    /// The plan, and its mechanism with the coefficients as they run, rounded.
    fn question(&self) -> anyhow::Result<(Plan, Self::Mechanism)>;
    fn samples(&self) -> &SamplesArgs;
    /// Adds the shape itself to the answer.
    fn describe(&self, answer: Answer) -> Answer;
}

#[derive(Clone, Debug, Args)]
pub struct AccountArgs<S: Shape> {
    #[command(flatten)]
    shape: S,
    /// Compute ε at this δ
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
}

#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs<S: Shape> {
    #[command(flatten)]
    shape: S,
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
}

/// ε at δ.
pub fn account<S: Shape>(args: &AccountArgs<S>) -> anyhow::Result<Answer> {
    let shape = &args.shape;
    let delta = args.delta;
    let (plan, mechanism) = shape.question()?;
    let sampling = shape.samples().sampling()?;
    let sigma = plan.accounted_noise_multiplier();
    let found = mechanism.epsilon(sigma, delta, sampling).map_err(from_accounting)?;
    let answer = Answer::new()
        .with("account", S::NAME)
        .with("epsilon", found.epsilon)
        .with("delta", delta)
        .with("noise_multiplier", sigma);
    let answer = verified(answer, found.delta.worse(), found.delta.upper(delta), sampling);
    Ok(of_plan(shape.describe(answer), &plan))
}

/// σ at (ε, δ).
pub fn calibrate<S: Shape>(args: &CalibrateArgs<S>) -> anyhow::Result<Answer> {
    let shape = &args.shape;
    let epsilon = args.epsilon;
    let delta = args.delta;
    let (plan, mechanism) = shape.question()?;
    let sampling = shape.samples().sampling()?;
    let made = mechanism.calibrate(epsilon, delta, sampling).map_err(from_accounting)?;
    let answer = Answer::new()
        .with("account", S::NAME)
        .with("epsilon", epsilon)
        .with("delta", delta)
        .with("noise_multiplier", made.noise_multiplier)
        .with("release", made.verdict.releases());
    let answer = verified(answer, made.verdict.delta().worse(), made.verdict.upper(), sampling);
    Ok(of_plan(shape.describe(answer), &plan))
}

fn of_plan(answer: Answer, plan: &Plan) -> Answer {
    answer.with("mechanism", plan.mechanism().name()).with("neighbouring", "zero-out")
}

/// δ at the ε of an answer, as other samples have it; the bound fails with probability δ at most.
fn verified(answer: Answer, worse: Estimate, upper: f64, sampling: SampleBudget) -> Answer {
    answer
        .with("delta_estimate", worse.delta)
        .with("standard_error", worse.standard_error)
        .with("delta_upper_bound", upper)
        .with("samples", sampling.samples)
        .with("seed", sampling.seed)
}
