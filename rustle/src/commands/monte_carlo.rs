//! Accounts by Monte Carlo, for any sampling scheme.

use accounting::failure;
use accounting::monte_carlo::{Estimate, Pair, SampleBudget};
use clap::Args;
use plan::Plan;

use super::account::Query;
use super::errors::from_accounting;
use crate::flag_of_field::of_planner;
use crate::output::Answer;

#[derive(Clone, Debug, Args)]
pub struct SamplesArgs {
    /// Number of samples for each figure
    #[arg(long, value_name = "N", default_value_t = SampleBudget::default().samples)]
    samples: u64,
    /// Seed of the samples, not to be chosen by its result [default: random]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl SamplesArgs {
    pub fn new(samples: Option<u64>, seed: Option<u64>) -> Self {
        Self { samples: samples.unwrap_or(SampleBudget::default().samples), seed }
    }

    fn sampling(&self) -> anyhow::Result<SampleBudget> {
        Ok(SampleBudget { samples: self.samples, seed: self.seed.map_or_else(fresh_seed, Ok)? })
    }
}

/// Least probability with which an upper bound of δ may fail.
const LEAST_FAILURE: f64 = 1e-12;

/// Probability with which δ at a given ε, which is an upper bound, may fail: chosen before any sample was seen.
const FAILURE: f64 = 1e-6;

/// Draws a seed of 53 bits, the most that every reader of JSON represents exactly.
pub fn fresh_seed() -> anyhow::Result<u64> {
    Ok(getrandom::u64()? >> 11)
}

/// A plan and its sampling scheme, as flags.
pub trait Shape: Args {
    const NAME: &'static str;
    type Mechanism: Pair;

    /// Returns the plan, and its mechanism with the rounded coefficients that run.
    fn question(&self) -> anyhow::Result<(Plan, Self::Mechanism)>;
    fn samples(&self) -> &SamplesArgs;
    /// Adds the numbers of the sampling scheme to the answer.
    fn describe(&self, answer: Answer) -> Answer;
}

#[derive(Clone, Debug, Args)]
pub struct AccountArgs<S: Shape> {
    #[command(flatten)]
    shape: S,
    #[command(flatten)]
    query: Query,
}

impl<S: Shape> AccountArgs<S> {
    pub fn new(shape: S, query: Query) -> Self {
        Self { shape, query }
    }
}

#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs<S: Shape> {
    #[command(flatten)]
    shape: S,
    /// ε to satisfy, above 0
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ to satisfy, strictly between 0 and 1
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
}

/// Returns ε at δ, an estimate, with an upper bound of δ at it; or δ at ε, the upper bound.
pub fn account<S: Shape>(args: &AccountArgs<S>) -> anyhow::Result<Answer> {
    let shape = &args.shape;
    let (plan, mechanism) = shape.question()?;
    let sampling = shape.samples().sampling()?;
    let sigma = plan.accounted_noise_multiplier();
    let left = plan.failure_probability();
    let (epsilon, delta, found, failure) = match (args.query.epsilon, args.query.delta) {
        (Some(epsilon), _) => {
            let found = mechanism.delta(sigma, epsilon, sampling).map_err(from_accounting)?;
            let delta = failure::delta(epsilon, left, found.upper(FAILURE)).map_err(from_accounting)?;
            (epsilon, delta, found, FAILURE)
        }
        (None, asked) => {
            let delta = asked.unwrap_or(f64::NAN);
            let found = mechanism.epsilon(sigma, delta, sampling).map_err(from_accounting)?;
            // A bound that fails with a probability of 0 or 1 would say nothing.
            (found.epsilon, delta, found.delta, delta.clamp(LEAST_FAILURE, 0.5))
        }
    };
    let answer = Answer::new()
        .with("account", S::NAME)
        .with("epsilon", epsilon)
        .with("delta", delta)
        .with("noise_multiplier", sigma);
    let upper = failure::delta(epsilon, left, found.upper(failure)).map_err(from_accounting)?;
    let answer = verified(answer, found.worse(), upper, sampling);
    let answer = answer.with("failure_probability", failure);
    Ok(of_plan(shape.describe(answer), &plan))
}

/// Returns the noise multiplier that satisfies (ε, δ).
pub fn calibrate<S: Shape>(args: &CalibrateArgs<S>) -> anyhow::Result<Answer> {
    let shape = &args.shape;
    let epsilon = args.epsilon;
    let delta = args.delta;
    let (plan, mechanism) = shape.question()?;
    let grid = plan.on_grid().map(|on_grid| on_grid.grid());
    let left = grid.map_or(Ok(delta), |_| planner::delta_on_grid(epsilon, delta)).map_err(of_planner)?;
    let sampling = shape.samples().sampling()?;
    let made = mechanism.calibrate(epsilon, left, sampling).map_err(from_accounting)?;
    let mut sigma = made.noise_multiplier;
    if let Some(grid) = grid {
        sigma = planner::with_accounted_noise(&plan, grid, sigma).map_err(of_planner)?.noise_multiplier();
    }
    let answer = Answer::new()
        .with("account", S::NAME)
        .with("epsilon", epsilon)
        .with("delta", delta)
        .with("noise_multiplier", sigma)
        .with("release", made.verdict.releases());
    let answer = verified(answer, made.verdict.delta().worse(), made.verdict.upper(), sampling);
    Ok(of_plan(shape.describe(answer), &plan))
}

fn of_plan(answer: Answer, plan: &Plan) -> Answer {
    answer.with("mechanism", plan.mechanism().name()).with("neighbouring", "zero-out")
}

/// Adds δ at the answer's ε, estimated from other samples. The bound fails with a probability of at most δ.
fn verified(answer: Answer, worse: Estimate, upper: f64, sampling: SampleBudget) -> Answer {
    answer
        .with("delta_estimate", worse.delta)
        .with("standard_error", worse.standard_error)
        .with("delta_upper_bound", upper)
        .with("samples", sampling.samples)
        .with("seed", sampling.seed)
}
