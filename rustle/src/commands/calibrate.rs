//! `rustle calibrate`: the noise multiplier, or another number, for an (ε, δ).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use plan::Plan;
use strategy::{Sensitivity, Strategy};

use self::goal::Goal;
use self::open::{OpenBandMf, OpenPoisson, OpenUserLevel};
use super::account::TreeShape;
use super::{b_min_sep, balls_in_bins, monte_carlo};
use crate::output::{Answer, Format, bad_use};

mod goal;
mod open;

#[derive(Clone, Debug, Subcommand)]
pub enum CalibrateCommand {
    /// Analyze one Gaussian mechanism exactly
    Gaussian {
        /// sens(C) per unit clip norm
        #[arg(long, value_name = "S", allow_negative_numbers = true)]
        sensitivity: f64,
        #[command(flatten)]
        goal: Goal,
    },
    /// A plan under its own participation (j − i ≥ min_sep); the plan's own value of what is sought is ignored
    #[command(alias = "zcdp")]
    Plan {
        /// The plan.toml to calibrate
        #[arg(long, value_name = "FILE")]
        plan: PathBuf,
        #[command(flatten)]
        goal: Goal,
    },
    /// Tree aggregation
    Tree {
        #[command(flatten)]
        shape: TreeShape,
        #[command(flatten)]
        goal: Goal,
    },
    /// Rounds of independent noise, each record sampled with a probability
    Poisson {
        #[command(flatten)]
        shape: OpenPoisson,
        #[command(flatten)]
        goal: Goal,
    },
    /// Rounds of independent noise for users with many records, by sampled records or users
    UserLevel {
        #[command(flatten)]
        shape: OpenUserLevel,
        #[command(flatten)]
        goal: Goal,
    },
    /// A banded strategy under cyclic Poisson sampling
    BandMf {
        #[command(flatten)]
        shape: OpenBandMf,
        #[command(flatten)]
        goal: Goal,
    },
    /// A plan whose records keep one random batch of every epoch, by Monte Carlo
    BallsInBins(monte_carlo::CalibrateArgs<balls_in_bins::BallsInBinsArgs>),
    /// A banded plan whose records join at random and then rest, by Monte Carlo
    BMinSep(monte_carlo::CalibrateArgs<b_min_sep::BMinSepArgs>),
}

impl CalibrateCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let answer = match self {
            Self::Gaussian { sensitivity, goal } => {
                goal.gaussian("gaussian", Sensitivity { value: sensitivity, exact: true })?
            }
            Self::Plan { plan, goal } => for_plan(&Plan::from_path(&plan)?, &goal)?,
            Self::Tree { shape, goal } => {
                let tree = shape.tree()?;
                let rule = shape.participation.rule()?;
                if goal.finds_participations("tree")? {
                    let rounds = (shape.iterations, rule.min_sep);
                    goal.participations("tree", &[Strategy::Tree(tree)], rounds, None)?
                } else {
                    goal.gaussian("tree", tree.sensitivity(shape.iterations, rule).map_err(bad_use)?)?
                }
            }
            Self::Poisson { shape, goal } => goal.sampled(&shape)?,
            Self::UserLevel { shape, goal } => goal.sampled(&shape)?,
            Self::BandMf { shape, goal } => goal.sampled(&shape)?,
            Self::BallsInBins(args) => monte_carlo::calibrate(&args)?,
            Self::BMinSep(args) => monte_carlo::calibrate(&args)?,
        };
        answer.print(format)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Calibrates a plan. Its C must keep the guarantee both as written and as rounded to run.
fn for_plan(plan: &Plan, goal: &Goal) -> anyhow::Result<Answer> {
    if !goal.finds_participations("zcdp")? {
        return goal.gaussian("zcdp", plan.accounted_sensitivity().map_err(bad_use)?);
    }
    let strategies = [plan.strategy(), plan.running_strategy().map_err(bad_use)?];
    let rounds = (plan.iterations(), plan.participation().min_sep);
    goal.participations("zcdp", &strategies, rounds, Some(plan.accounted_noise_multiplier()))
}
