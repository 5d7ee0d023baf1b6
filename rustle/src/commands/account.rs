//! `rustle account`: the privacy cost of a mechanism, as ε, δ and ρ.

use std::path::PathBuf;
use std::process::ExitCode;

use accounting::Report;
use clap::{Args, Subcommand};
use strategy::{Sensitivity, Tree};

pub use self::ask::Query;
use self::ask::{Ask, sampled_answer};
use self::random_allocation::RandomAllocation;
use self::sampled::{BandMf, Poisson, Relation, UserLevel};
use super::errors::from_accounting;
use super::setting::ParticipationArgs;
use super::{b_min_sep, balls_in_bins, monte_carlo};
use crate::commands::plan_file;
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;

mod ask;
mod compose;
mod event;
mod matrix;
pub mod random_allocation;
pub mod sampled;

#[derive(Clone, Debug, Subcommand)]
pub enum AccountCommand {
    /// Analyze one Gaussian mechanism exactly
    Gaussian(GaussianArgs),
    /// Analyze a plan under its own participation, without sampling
    #[command(alias = "zcdp")]
    Plan(PlanArgs),
    /// Analyze tree aggregation
    Tree(TreeArgs),
    /// Analyze Poisson-sampled rounds of independent noise, per record
    Poisson(SampledArgs<Poisson>),
    /// Analyze Poisson-sampled rounds of independent noise, per user
    UserLevel(SampledArgs<UserLevel>),
    /// Analyze independent noise under random allocation: each record in some batches of each epoch
    RandomAllocation(SampledArgs<RandomAllocation>),
    /// Analyze a banded strategy, columns of norm at most 1, under cyclic Poisson sampling
    BandMf(SampledArgs<BandMf>),
    /// Analyze a plan under balls-in-bins sampling, by Monte Carlo
    BallsInBins(monte_carlo::AccountArgs<balls_in_bins::BallsInBinsArgs>),
    /// Analyze a banded plan under b-min-sep sampling, by Monte Carlo
    BMinSep(monte_carlo::AccountArgs<b_min_sep::BMinSepArgs>),
    /// Analyze a plan under random batches, without samples or by Monte Carlo
    Matrix(matrix::MatrixArgs),
    /// Analyze an event given as JSON
    Event(event::EventArgs),
    /// Analyze several events together, each given as JSON
    Compose(compose::ComposeArgs),
}

#[derive(Clone, Debug, Args)]
pub struct GaussianArgs {
    /// L2 sensitivity of C, per unit clip norm, at least 0
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    sensitivity: f64,
    #[command(flatten)]
    noise: Noise,
    #[command(flatten)]
    ask: Ask,
}

#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// File of the plan
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Maximum number of records of one owner, or user, per batch, each clipped on its own
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    records_per_batch: u64,
    #[command(flatten)]
    ask: Ask,
}

#[derive(Clone, Debug, Args)]
pub struct TreeArgs {
    #[command(flatten)]
    noise: Noise,
    #[command(flatten)]
    shape: TreeShape,
    #[command(flatten)]
    ask: Ask,
}

/// Sampled rounds, whose account is a privacy-loss distribution.
#[derive(Clone, Debug, Args)]
pub struct SampledArgs<S: Args> {
    #[command(flatten)]
    noise: Noise,
    #[command(flatten)]
    shape: S,
    #[command(flatten)]
    ask: Ask,
}

#[derive(Clone, Copy, Debug, Args)]
struct Noise {
    /// Noise multiplier σ, in units of the clip norm, above 0
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    noise_multiplier: f64,
}

/// A tree mechanism and its participation.
#[derive(Clone, Debug, Args)]
pub struct TreeShape {
    /// Number of rounds n
    #[arg(long, value_name = "N")]
    pub iterations: u64,
    #[command(flatten)]
    pub participation: ParticipationArgs,
    /// Rounds that start a new tree, separated by commas [default: none]
    #[arg(long, value_name = "ROUNDS", value_delimiter = ',')]
    pub restarts: Vec<u64>,
    /// Fill each tree with virtual steps before a restart
    #[arg(long)]
    pub completion: bool,
}

impl TreeShape {
    pub fn tree(&self) -> anyhow::Result<Tree> {
        Tree::new(self.restarts.clone(), self.completion).map_err(bad_use)
    }
}

impl AccountCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let progress = Progress::spinner("computing the privacy cost");
        let answer = self.answer()?;
        drop(progress);
        answer.print(format)?;
        Ok(ExitCode::SUCCESS)
    }

    fn answer(self) -> anyhow::Result<Answer> {
        Ok(match self {
            Self::Gaussian(args) => gaussian_answer(&args)?,
            Self::Plan(args) => plan_answer(&args)?,
            Self::Tree(TreeArgs { noise, shape, ask }) => {
                let rule = shape.participation.rule()?;
                let tree = shape.tree()?.sensitivity(shape.iterations, rule).map_err(bad_use)?;
                let report = ask.report(tree, noise.noise_multiplier)?;
                answer("tree", &report, ask.relation).with("iterations", shape.iterations)
            }
            Self::Poisson(SampledArgs { noise, shape, ask }) => {
                let event = shape.event(noise.noise_multiplier);
                shape.describe(sampled_answer("poisson", noise.noise_multiplier, &event, ask)?)
            }
            Self::UserLevel(SampledArgs { noise, shape, ask }) => {
                let event = shape.event(noise.noise_multiplier).map_err(from_accounting)?;
                shape.describe(sampled_answer("user-level", noise.noise_multiplier, &event, ask)?)
            }
            Self::BandMf(SampledArgs { noise, shape, ask }) => {
                let event = shape.event(noise.noise_multiplier);
                shape.describe(sampled_answer("band-mf", noise.noise_multiplier, &event, ask)?)
            }
            Self::RandomAllocation(SampledArgs { noise, shape, ask }) => {
                let sigma = noise.noise_multiplier;
                let found = sampled_answer("random-allocation", sigma, &shape.event(sigma), ask)?;
                shape.describe(shape.with_lower_bound(sigma, ask.query.delta, found)?)
            }
            Self::BallsInBins(args) => monte_carlo::account(&args)?,
            Self::BMinSep(args) => monte_carlo::account(&args)?,
            Self::Matrix(args) => matrix::answer(&args)?,
            Self::Event(args) => event::answer(&args)?,
            Self::Compose(args) => compose::answer(&args)?,
        })
    }
}

fn plan_answer(args: &PlanArgs) -> anyhow::Result<Answer> {
    let plan = plan_file::read(&args.plan)?;
    let n = plan.iterations();
    let rule = plan.participation();
    args.ask.relation.check_plan(&plan)?;
    let mut sensitivity = plan.accounted_sensitivity().map_err(bad_use)?;
    if args.records_per_batch > 1 && plan.on_grid().is_some() {
        let why = "--plan has [grid], whose account is for one rounded contribution of a user in a sum";
        return Err(bad_use(format!(
            "--records-per-batch is {}; allowed: 1, as {why}",
            args.records_per_batch
        )));
    }
    // M records of norm 1 move a sum by at most M, in each round that the rule allows.
    sensitivity.value *= args.records_per_batch as f64;
    let noise = plan.accounted_noise_multiplier();
    let report = args.ask.report_of_run(sensitivity, noise, plan.failure_probability())?;
    Ok(answer("zcdp", &report, args.ask.relation)
        .with("mechanism", plan.mechanism().name())
        .with("iterations", n)
        .with("min_sep", rule.min_sep)
        .with("max_participations", rule.max_participations)
        .with("records_per_batch", args.records_per_batch))
}

fn gaussian_answer(args: &GaussianArgs) -> anyhow::Result<Answer> {
    let sensitivity = Sensitivity { value: args.sensitivity, exact: true };
    let report = args.ask.report(sensitivity, args.noise.noise_multiplier)?;
    Ok(answer("gaussian", &report, args.ask.relation))
}

/// Returns a report as it is printed. `exact` is false where sensitivity, ε and ρ are upper bounds. The sensitivity is
/// the one under the relation: twice as large where a user is replaced.
pub fn answer(account: &'static str, report: &Report, relation: Relation) -> Answer {
    Answer::new()
        .with("account", account)
        .with("epsilon", report.epsilon)
        .with("delta", report.delta)
        .with("rho", report.rho)
        .with("noise_multiplier", report.noise_multiplier)
        .with("sensitivity", report.sensitivity)
        .with("exact", report.exact)
        .with("neighbouring", relation.name())
}
