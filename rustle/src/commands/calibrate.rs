//! `rustle calibrate`: the noise multiplier, or another parameter, that satisfies an (ε, δ).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use plan::Plan;
use strategy::{Sensitivity, Strategy};

use self::goal::Goal;
use self::open::{OpenBandMf, OpenPoisson, OpenUserLevel};
use super::account::TreeShape;
use super::account::random_allocation::RandomAllocation;
use super::{b_min_sep, balls_in_bins, monte_carlo};
use crate::commands::plan_file;
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;

mod goal;
mod open;

#[derive(Clone, Debug, Subcommand)]
pub enum CalibrateCommand {
    /// Calibrate one Gaussian mechanism exactly
    Gaussian {
        /// L2 sensitivity of C, per unit clip norm, above 0
        #[arg(long, value_name = "S", allow_negative_numbers = true)]
        sensitivity: f64,
        #[command(flatten)]
        goal: Goal,
    },
    /// Calibrate a plan under its own participation, without sampling
    #[command(alias = "zcdp")]
    Plan {
        /// File of the plan; its own value of the parameter to find is ignored
        #[arg(long, value_name = "FILE")]
        plan: PathBuf,
        #[command(flatten)]
        goal: Goal,
    },
    /// Calibrate tree aggregation
    Tree {
        #[command(flatten)]
        shape: TreeShape,
        #[command(flatten)]
        goal: Goal,
    },
    /// Calibrate Poisson-sampled rounds of independent noise, per record
    Poisson {
        #[command(flatten)]
        shape: OpenPoisson,
        #[command(flatten)]
        goal: Goal,
    },
    /// Calibrate Poisson-sampled rounds of independent noise, per user
    UserLevel {
        #[command(flatten)]
        shape: OpenUserLevel,
        #[command(flatten)]
        goal: Goal,
    },
    /// Calibrate a banded strategy, columns of norm at most 1, under cyclic Poisson sampling
    BandMf {
        #[command(flatten)]
        shape: OpenBandMf,
        #[command(flatten)]
        goal: Goal,
    },
    /// Calibrate independent noise under random allocation
    RandomAllocation {
        #[command(flatten)]
        shape: RandomAllocation,
        #[command(flatten)]
        goal: Goal,
    },
    /// Calibrate a plan under balls-in-bins sampling, by Monte Carlo
    BallsInBins(monte_carlo::CalibrateArgs<balls_in_bins::BallsInBinsArgs>),
    /// Calibrate a banded plan under b-min-sep sampling, by Monte Carlo
    BMinSep(monte_carlo::CalibrateArgs<b_min_sep::BMinSepArgs>),
}

impl CalibrateCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let progress = Progress::spinner("calibrating");
        let answer = self.answer()?;
        drop(progress);
        answer.print(format)?;
        Ok(ExitCode::SUCCESS)
    }

    fn answer(self) -> anyhow::Result<Answer> {
        Ok(match self {
            Self::Gaussian { sensitivity, goal } => {
                goal.gaussian("gaussian", Sensitivity { value: sensitivity, exact: true })?
            }
            Self::Plan { plan, goal } => for_plan(&plan_file::read(&plan)?, &goal)?,
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
            Self::RandomAllocation { shape, goal } => {
                shape.describe(goal.noise("random-allocation", |sigma| shape.event(sigma))?)
            }
            Self::BallsInBins(args) => monte_carlo::calibrate(&args)?,
            Self::BMinSep(args) => monte_carlo::calibrate(&args)?,
        })
    }
}

/// Calibrates a plan. Its C must satisfy the guarantee both as written and as rounded to run.
fn for_plan(plan: &Plan, goal: &Goal) -> anyhow::Result<Answer> {
    let finds_participations = goal.finds_participations("zcdp")?;
    match plan.on_grid() {
        Some(_) if finds_participations => {
            return Err(bad_use(
                "--find is participations, and --plan has [grid]; allowed: noise-multiplier, or `rustle account plan` of plans with \
                 other max_participations",
            ));
        }
        Some(on_grid) => return goal.on_grid("zcdp", plan, on_grid.grid()),
        None => {}
    }
    if !finds_participations {
        return goal.gaussian("zcdp", plan.accounted_sensitivity().map_err(bad_use)?);
    }
    let strategies = [plan.strategy(), plan.running_strategy().map_err(bad_use)?];
    let rounds = (plan.iterations(), plan.participation().min_sep);
    goal.participations("zcdp", &strategies, rounds, Some(plan.accounted_noise_multiplier()))
}
