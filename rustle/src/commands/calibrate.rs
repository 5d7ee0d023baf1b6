//! `rustle calibrate`: the smallest noise multiplier that gives an (ε, δ).

use std::path::PathBuf;
use std::process::ExitCode;

use accounting::calibration::{self, Target};
use accounting::{Account, AccountingError, Event, calibrate_gaussian, pld};
use clap::{Args, Subcommand};
use plan::Plan;
use strategy::Sensitivity;

use super::account::sampled::{BandMf, Poisson, Relation, UserLevel};
use super::account::{TreeShape, answer, unusable};
use super::balls_in_bins;
use crate::output::{Answer, Format, bad_use};

#[derive(Clone, Debug, Subcommand)]
pub enum CalibrateCommand {
    /// One Gaussian mechanism, exactly
    Gaussian {
        /// sens(C) per unit clip norm
        #[arg(long, value_name = "S", allow_negative_numbers = true)]
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
    /// Rounds of independent noise, each record sampled with a probability
    Poisson {
        #[command(flatten)]
        shape: Poisson,
        #[command(flatten)]
        goal: Goal,
    },
    /// The same, for users of many records
    UserLevel {
        #[command(flatten)]
        shape: UserLevel,
        #[command(flatten)]
        goal: Goal,
    },
    /// A banded strategy under cyclic Poisson sampling
    BandMf {
        #[command(flatten)]
        shape: BandMf,
        #[command(flatten)]
        goal: Goal,
    },
    /// A plan whose records keep one random batch of every epoch, by Monte Carlo
    BallsInBins(balls_in_bins::CalibrateArgs),
}

/// The promise to keep.
#[derive(Clone, Copy, Debug, Args)]
pub struct Goal {
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
    #[command(flatten)]
    relation: Relation,
}

impl CalibrateCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let answer = match self {
            Self::Gaussian { sensitivity, goal } => {
                goal.gaussian("gaussian", Sensitivity { value: sensitivity, exact: true })?
            }
            Self::Zcdp { plan, goal } => {
                let plan = Plan::from_path(&plan)?;
                goal.gaussian("zcdp", plan.accounted_sensitivity().map_err(bad_use)?)?
            }
            Self::Tree { shape, goal } => {
                let rule = shape.participation.rule()?;
                goal.gaussian("tree", shape.tree()?.sensitivity(shape.iterations, rule).map_err(bad_use)?)?
            }
            Self::Poisson { shape, goal } => {
                shape.describe(goal.sampled("poisson", |sigma| Ok(shape.event(sigma)))?)
            }
            Self::UserLevel { shape, goal } => {
                shape.describe(goal.sampled("user-level", |sigma| shape.event(sigma))?)
            }
            Self::BandMf { shape, goal } => {
                shape.describe(goal.sampled("band-mf", |sigma| Ok(shape.event(sigma)))?)
            }
            Self::BallsInBins(args) => balls_in_bins::calibrate(&args)?,
        };
        answer.print(format)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Goal {
    fn gaussian(&self, name: &'static str, zero_out: Sensitivity) -> anyhow::Result<Answer> {
        let moved = self.relation.moved(zero_out);
        let sigma = calibrate_gaussian(moved.value, self.epsilon, self.delta).map_err(unusable)?;
        let report = self.relation.report(zero_out, sigma, self.delta).map_err(unusable)?;
        Ok(answer(name, &report, self.relation))
    }

    fn sampled(
        &self,
        name: &'static str,
        event: impl Fn(f64) -> Result<Event, AccountingError>,
    ) -> anyhow::Result<Answer> {
        let (epsilon, delta) = (self.epsilon, self.delta);
        let target = Target { epsilon, delta, neighbouring: self.relation.neighbouring() };
        let sigma = calibration::noise_multiplier(target, &event).map_err(unusable)?;
        let account = Account::of(&event(sigma).map_err(unusable)?, target.neighbouring).map_err(unusable)?;
        let reached = account.epsilon_figure(delta, pld::ACCURACY).map_err(unusable)?.value;
        Ok(Answer::new()
            .with("account", name)
            .with("epsilon", reached)
            .with("delta", delta)
            .with("noise_multiplier", sigma)
            .with("neighbouring", self.relation.name()))
    }
}
