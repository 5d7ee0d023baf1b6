//! What accounts by Monte Carlo have in common: how many samples, and how their answers read.

use accounting::monte_carlo::{Estimate, Pair, Sampling};
use clap::Args;

use super::account::unusable;
use crate::output::Answer;

#[derive(Clone, Debug, Args)]
pub struct SamplesArgs {
    /// Samples for each figure
    #[arg(long, value_name = "N", default_value_t = Sampling::default().samples)]
    samples: u64,
    /// Seed of the samples, drawn afresh unless given; one chosen by its answer promises nothing
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl SamplesArgs {
    pub fn sampling(&self) -> anyhow::Result<Sampling> {
        Ok(Sampling { samples: self.samples, seed: self.seed.map_or_else(fresh_seed, Ok)? })
    }
}

/// 53 bits, which every reader of JSON keeps.
pub fn fresh_seed() -> anyhow::Result<u64> {
    Ok(getrandom::u64()? >> 11)
}

/// ε at δ.
pub fn account(
    name: &str,
    pair: &impl Pair,
    sigma: f64,
    delta: f64,
    sampling: Sampling,
) -> anyhow::Result<Answer> {
    let found = pair.epsilon(sigma, delta, sampling).map_err(unusable)?;
    let answer = Answer::new()
        .with("account", name)
        .with("epsilon", found.epsilon)
        .with("delta", delta)
        .with("noise_multiplier", sigma);
    Ok(verified(answer, found.delta.worse(), found.delta.upper(delta), sampling))
}

/// σ at (ε, δ).
pub fn calibrate(
    name: &str,
    pair: &impl Pair,
    (epsilon, delta): (f64, f64),
    sampling: Sampling,
) -> anyhow::Result<Answer> {
    let made = pair.calibrate(epsilon, delta, sampling).map_err(unusable)?;
    let answer = Answer::new()
        .with("account", name)
        .with("epsilon", epsilon)
        .with("delta", delta)
        .with("noise_multiplier", made.noise_multiplier)
        .with("release", made.verdict.releases());
    Ok(verified(answer, made.verdict.delta().worse(), made.verdict.upper(), sampling))
}

/// δ at the ε of an answer, as other samples have it; the bound fails with probability δ at most.
fn verified(answer: Answer, worse: Estimate, upper: f64, sampling: Sampling) -> Answer {
    answer
        .with("delta_estimate", worse.delta)
        .with("standard_error", worse.standard_error)
        .with("delta_upper_bound", upper)
        .with("samples", sampling.samples)
        .with("seed", sampling.seed)
}
