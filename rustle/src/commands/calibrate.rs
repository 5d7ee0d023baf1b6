//! `rustle calibrate`: the smallest noise multiplier that gives an (ε, δ).

use std::path::PathBuf;
use std::process::ExitCode;

use accounting::Report;
use clap::{Args, Subcommand};
use plan::Plan;
use strategy::{Sensitivity, Strategy};

use super::account::{TreeShape, answer, unusable};
use crate::output::Format;

#[derive(Clone, Debug, Subcommand)]
pub enum CalibrateCommand {
    /// One Gaussian mechanism, exactly
    Gaussian {
        /// sens(C) per unit clip norm
        #[arg(long, value_name = "S")]
        sensitivity: f64,
        #[command(flatten)]
        goal: Goal,
    },
    /// A plan under its own participation (j − i ≥ min_sep), whatever its noise multiplier says
    Zcdp {
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
}

/// The promise to keep.
#[derive(Clone, Copy, Debug, Args)]
pub struct Goal {
    #[arg(long)]
    epsilon: f64,
    #[arg(long)]
    delta: f64,
}

impl CalibrateCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let (name, report) = match self {
            Self::Gaussian { sensitivity, goal } => {
                let exact = Sensitivity { value: sensitivity, exact: true };
                let sigma = accounting::calibrate_gaussian(sensitivity, goal.epsilon, goal.delta)
                    .map_err(unusable)?;
                ("gaussian", Report::at_delta(exact, sigma, goal.delta).map_err(unusable)?)
            }
            Self::Zcdp { plan, goal } => {
                let plan = Plan::from_path(&plan)?;
                let rule = plan.participation().into();
                ("zcdp", calibrated(&plan.strategy(), plan.iterations(), rule, goal)?)
            }
            Self::Tree { shape, goal } => {
                let rule = shape.participation.rule()?;
                ("tree", calibrated(&Strategy::Tree(shape.tree()?), shape.iterations, rule, goal)?)
            }
        };
        answer(name, &report).print(format)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn calibrated(
    strategy: &Strategy,
    n: u64,
    rule: strategy::Participation,
    goal: Goal,
) -> anyhow::Result<Report> {
    accounting::calibrate(strategy, n, rule, goal.epsilon, goal.delta).map_err(unusable)
}
