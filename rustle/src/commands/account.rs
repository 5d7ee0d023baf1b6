//! `rustle account`: what a run promises when one user's participations are all zeroed out.

use std::path::PathBuf;
use std::process::ExitCode;

use accounting::{AccountingError, Report, gaussian, zcdp};
use clap::{Args, Subcommand};
use plan::Plan;
use strategy::Tree;

use super::setting::ParticipationArgs;
use crate::output::{Answer, Format, bad_use};

#[derive(Clone, Debug, Subcommand)]
pub enum AccountCommand {
    /// One Gaussian mechanism, exactly
    Gaussian(GaussianArgs),
    /// A plan under its own participation (j − i ≥ min_sep)
    Zcdp(PlanArgs),
    /// Tree aggregation
    Tree(TreeArgs),
}

#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("ask").required(true).args(["delta", "epsilon"]))]
pub struct GaussianArgs {
    /// sens(C) per unit clip norm
    #[arg(long, value_name = "S")]
    sensitivity: f64,
    /// σ, in units of the clip norm
    #[arg(long, value_name = "X")]
    noise_multiplier: f64,
    /// Find ε at this δ
    #[arg(long)]
    delta: Option<f64>,
    /// Find δ at this ε
    #[arg(long)]
    epsilon: Option<f64>,
}

#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// The plan.toml to account for
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Find ε at this δ
    #[arg(long)]
    delta: f64,
}

#[derive(Clone, Debug, Args)]
pub struct TreeArgs {
    /// σ, in units of the clip norm
    #[arg(long, value_name = "X")]
    noise_multiplier: f64,
    #[command(flatten)]
    shape: TreeShape,
    /// Find ε at this δ
    #[arg(long)]
    delta: f64,
}

/// A tree mechanism and its participation.
#[derive(Clone, Debug, Args)]
pub struct TreeShape {
    /// Rows
    #[arg(long, value_name = "N")]
    pub iterations: u64,
    #[command(flatten)]
    pub participation: ParticipationArgs,
    /// Rounds that start a fresh tree
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
        match self {
            Self::Gaussian(args) => gaussian_answer(&args)?.print(format)?,
            Self::Zcdp(args) => {
                let plan = Plan::from_path(&args.plan)?;
                let (n, rule) = (plan.iterations(), plan.participation());
                let report = accounting::account(
                    &plan.strategy(),
                    n,
                    rule.into(),
                    plan.noise_multiplier(),
                    args.delta,
                )
                .map_err(unusable)?;
                answer("zcdp", &report)
                    .with("mechanism", plan.mechanism().name())
                    .with("iterations", n)
                    .with("min_sep", rule.min_sep)
                    .with("max_participations", rule.max_participations)
                    .print(format)?;
            }
            Self::Tree(TreeArgs { noise_multiplier, shape, delta }) => {
                let rule = shape.participation.rule()?;
                let report = accounting::tree::account(
                    &shape.tree()?,
                    shape.iterations,
                    rule,
                    noise_multiplier,
                    delta,
                )
                .map_err(unusable)?;
                answer("tree", &report).with("iterations", shape.iterations).print(format)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn gaussian_answer(args: &GaussianArgs) -> anyhow::Result<Answer> {
    let rho = zcdp::rho(args.sensitivity, args.noise_multiplier).map_err(unusable)?;
    let mu = args.sensitivity / args.noise_multiplier;
    let (epsilon, delta) = match (args.epsilon, args.delta) {
        (Some(epsilon), _) => (epsilon, gaussian::delta(epsilon, mu).map_err(unusable)?),
        (None, Some(delta)) => (gaussian::epsilon(delta, mu).map_err(unusable)?, delta),
        (None, None) => return Err(bad_use("one of --delta and --epsilon is needed")),
    };
    let (sensitivity, exact) = (args.sensitivity, true);
    let noise_multiplier = args.noise_multiplier;
    Ok(answer("gaussian", &Report { epsilon, delta, rho, noise_multiplier, sensitivity, exact }))
}

/// A report as it is printed; `exact` is false where sensitivity, ε and ρ are upper bounds.
pub fn answer(account: &'static str, report: &Report) -> Answer {
    Answer::new()
        .with("account", account)
        .with("epsilon", report.epsilon)
        .with("delta", report.delta)
        .with("rho", report.rho)
        .with("noise_multiplier", report.noise_multiplier)
        .with("sensitivity", report.sensitivity)
        .with("exact", report.exact)
}

/// Numbers outside their range are bad use; all else is a failure.
pub fn unusable(error: AccountingError) -> anyhow::Error {
    match error {
        AccountingError::Invalid { .. } | AccountingError::Strategy(_) => bad_use(error),
        other => other.into(),
    }
}
