//! `rustle account matrix`: a plan under batches drawn at random, without samples or by them.

use std::path::PathBuf;

use accounting::correlated::{Bound, Question, RandomBatches};
use accounting::failure;
use clap::Args;

use super::ask::Query;
use crate::commands::b_min_sep::BMinSepArgs;
use crate::commands::balls_in_bins::BallsInBinsArgs;
use crate::commands::conditional_flags::{refuse_given, required};
use crate::commands::errors::from_accounting;
use crate::commands::monte_carlo::{self, SamplesArgs};
use crate::commands::plan_file;
use crate::output::{Answer, bad_use};

#[derive(Clone, Debug, Args)]
pub struct MatrixArgs {
    /// File of the plan; no entry of its C may be negative
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// How each record gets its rounds
    #[arg(long, value_enum, value_name = "SAMPLING")]
    sampling: Draw,
    /// How ε is found
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = Method::Conditional)]
    method: Method,
    /// Number of batches per epoch, which divides the plan's rounds, for random-allocation and balls-in-bins
    #[arg(long, value_name = "B")]
    batches_per_epoch: Option<u64>,
    /// Minimum distance j − i between two rounds i < j of one record, for b-min-sep
    #[arg(long, value_name = "B")]
    min_sep: Option<u64>,
    /// Probability with which an eligible record joins a round, for b-min-sep
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// Start from the stationary distribution, for b-min-sep
    #[arg(long)]
    warm_start: bool,
    /// Number of samples for each figure, for monte-carlo [default: 1048576]
    #[arg(long, value_name = "N")]
    samples: Option<u64>,
    /// Seed of the samples, for monte-carlo [default: random]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    #[command(flatten)]
    query: Query,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Draw {
    /// In one random batch of each epoch, drawn anew in each
    RandomAllocation,
    /// In one random batch, the same in every epoch
    BallsInBins,
    /// At random, at least B rounds apart
    BMinSep,
}

impl Draw {
    fn name(self) -> &'static str {
        match self {
            Self::RandomAllocation => "random-allocation",
            Self::BallsInBins => "balls-in-bins",
            Self::BMinSep => "b-min-sep",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Method {
    /// Losses that dominate, with part of the draw revealed; an upper bound
    Conditional,
    /// Rényi divergences of integer orders with the record against without it, losses in reverse; an upper bound
    Renyi,
    /// An estimate by samples
    MonteCarlo,
}

pub fn answer(args: &MatrixArgs) -> anyhow::Result<Answer> {
    let answer = match (args.method, args.sampling) {
        (Method::MonteCarlo, Draw::BallsInBins) => {
            args.sampled_balls_in_bins()?.with("method", "monte-carlo")
        }
        (Method::MonteCarlo, Draw::BMinSep) => args.sampled_b_min_sep()?.with("method", "monte-carlo"),
        (Method::MonteCarlo, Draw::RandomAllocation) => {
            return Err(bad_use(
                "--method is monte-carlo; allowed with --sampling random-allocation: conditional, renyi",
            ));
        }
        (Method::Conditional | Method::Renyi, Draw::BMinSep) => {
            return Err(bad_use(
                "--method has no account of b-min-sep without samples; allowed with --sampling b-min-sep: monte-carlo",
            ));
        }
        (Method::Conditional, _) => args.bounded("conditional", RandomBatches::conditional)?,
        (Method::Renyi, _) => args.bounded("renyi", RandomBatches::renyi)?,
    };
    Ok(answer.with("sampling", args.sampling.name()))
}

impl MatrixArgs {
    fn bounded(
        &self,
        method: &'static str,
        bound: impl Fn(&RandomBatches, f64, Question) -> accounting::Result<Bound>,
    ) -> anyhow::Result<Answer> {
        let batches = self.batches()?;
        let given = [("--samples", self.samples.is_some()), ("--seed", self.seed.is_some())];
        refuse_given(&given, &format!("--method {method}"))?;
        let plan = plan_file::read(&self.plan)?;
        let strategy = plan.sampled_strategy().map_err(bad_use)?;
        let rows = plan.iterations();
        let mechanism = match self.sampling {
            Draw::BallsInBins => RandomBatches::balls_in_bins(&strategy, rows, batches),
            _ => RandomBatches::random_allocation(&strategy, rows, batches),
        };
        let mechanism = mechanism.map_err(from_accounting)?;
        let sigma = plan.accounted_noise_multiplier();
        let left = plan.failure_probability();
        let own = |question| bound(&mechanism, sigma, question);
        let (epsilon, delta, found) = match (self.query.epsilon, self.query.delta) {
            (Some(epsilon), _) => {
                let found = own(Question::AtEpsilon(epsilon)).map_err(from_accounting)?;
                let delta = failure::delta(epsilon, left, found.value).map_err(from_accounting)?;
                (epsilon, delta, found)
            }
            (None, delta) => {
                let delta = delta.unwrap_or(f64::NAN);
                let at = |delta| own(Question::AtDelta(delta));
                let found = failure::at_delta(delta, left, at, |bound: &Bound| bound.value);
                let found = found.map_err(from_accounting)?;
                (found.value, delta, found)
            }
        };
        let answer = Answer::new()
            .with("account", "matrix")
            .with("epsilon", epsilon)
            .with("delta", delta)
            .with("method", method);
        let answer = match (found.order, found.hidden_among) {
            (Some(order), _) => answer.with("order", order),
            (None, Some(hidden)) => answer.with("hidden_among", hidden),
            (None, None) => answer,
        };
        Ok(answer
            .with("noise_multiplier", sigma)
            .with("mechanism", plan.mechanism().name())
            .with("neighbouring", "zero-out")
            .with("batches_per_epoch", batches)
            .with("epochs", rows / batches))
    }

    fn sampled_balls_in_bins(&self) -> anyhow::Result<Answer> {
        let batches = self.batches()?;
        let rows = plan_file::read(&self.plan)?.iterations();
        let epochs = rows.checked_div(batches).unwrap_or(0);
        let shape = BallsInBinsArgs::new(self.plan.clone(), batches, epochs, self.sampling());
        monte_carlo::account(&monte_carlo::AccountArgs::new(shape, self.query))
    }

    fn sampled_b_min_sep(&self) -> anyhow::Result<Answer> {
        let choice = "--sampling b-min-sep";
        refuse_given(&[("--batches-per-epoch", self.batches_per_epoch.is_some())], choice)?;
        let min_sep = required(self.min_sep, "--min-sep", choice)?;
        let probability = required(self.sampling_probability, "--sampling-probability", choice)?;
        let drawn = (min_sep, probability, self.warm_start);
        let shape = BMinSepArgs::new(self.plan.clone(), drawn, self.sampling());
        monte_carlo::account(&monte_carlo::AccountArgs::new(shape, self.query))
    }

    fn sampling(&self) -> SamplesArgs {
        SamplesArgs::new(self.samples, self.seed)
    }

    /// Returns the batches per epoch of a scheme that has them. Error: they are missing, or a flag of another scheme is given.
    fn batches(&self) -> anyhow::Result<u64> {
        let choice = format!("--sampling {}", self.sampling.name());
        let others = [
            ("--min-sep", self.min_sep.is_some()),
            ("--sampling-probability", self.sampling_probability.is_some()),
            ("--warm-start", self.warm_start),
        ];
        refuse_given(&others, &choice)?;
        required(self.batches_per_epoch, "--batches-per-epoch", &choice)
    }
}
