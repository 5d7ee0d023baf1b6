//! `rustle plan optimize`: the parameters with the least loss.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use plan::Mechanism;
use strategy::optimize::{Family, Objective, Target, optimize};
use strategy::{Strategy, Tree};

use super::make::{Name, RunArgs, with_losses, with_parameters};
use crate::output::{Answer, Format, bad_use};

/// Buffers of a BLT where no count is given: more gain next to nothing in the papers' settings.
const BUFFERS: usize = 4;

#[derive(Clone, Debug, Args)]
pub struct OptimizeArgs {
    /// The mechanism
    #[arg(long, value_name = "M", value_enum)]
    mechanism: Name,
    #[command(flatten)]
    run: RunArgs,
    /// Diagonals of C, or of its inverse; min-sep where left away
    #[arg(long, value_name = "P", conflicts_with = "buffers")]
    bands: Option<u64>,
    /// Buffers of a BLT
    #[arg(long, value_name = "D")]
    buffers: Option<usize>,
    /// The loss to make small
    #[arg(long, value_enum, default_value_t = Loss::Rms)]
    loss: Loss,
    /// What is released: prefix sums
    #[arg(long, value_enum, default_value_t = Workload::Prefix)]
    workload: Workload,
    /// σ of the plan; `rustle calibrate zcdp` finds the one for an (ε, δ)
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    noise_multiplier: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loss {
    Rms,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    Prefix,
}

pub fn run(args: &OptimizeArgs, format: Format) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    args.check_sizes()?;
    let strategy = args.strategy()?;
    let seconds = start.elapsed().as_secs_f64();
    let mechanism = Mechanism::try_from(&strategy)?;
    let answer = with_losses(Answer::new(), &strategy, &args.run)?.with("seconds", seconds);
    let answer = with_parameters(answer, &mechanism, &strategy)?;
    let plan = args.run.plan(mechanism, args.noise_multiplier)?;
    args.run.deliver(&plan, answer)?.print(format)?;
    Ok(ExitCode::SUCCESS)
}

impl OptimizeArgs {
    fn check_sizes(&self) -> anyhow::Result<()> {
        let (blt, name) = (self.mechanism == Name::Blt, self.mechanism);
        if self.buffers.is_some() && !blt {
            return Err(bad_use(format!("--buffers belongs to blt, not to {name:?}")));
        }
        let banded = !matches!(name, Name::Identity | Name::Tree | Name::Blt | Name::LambdaCgd | Name::Dense);
        if self.bands.is_some() && !banded {
            return Err(bad_use(format!("--bands belongs to the banded mechanisms, not to {name:?}")));
        }
        match self.bands {
            Some(bands) if !(1..=self.run.iterations).contains(&bands) => Err(bad_use(format!(
                "--bands is {bands}; allowed: 1 to {} (iterations)",
                self.run.iterations
            ))),
            _ => Ok(()),
        }
    }

    fn strategy(&self) -> anyhow::Result<Strategy> {
        let bands = self.bands.unwrap_or(self.run.participation.min_sep.min(self.run.iterations));
        let bands = usize::try_from(bands)?;
        let family = match self.mechanism {
            // These have no free parameters: there is nothing to search.
            Name::Identity => return Ok(Strategy::Identity),
            Name::Tree => return Ok(Strategy::Tree(Tree::default())),
            Name::BandSqrt => return Ok(Strategy::BandSqrt { bands }),
            Name::BandInverseSqrt => return Ok(Strategy::BandInverseSqrt { bands }),
            Name::Blt => Family::Blt { buffers: self.buffers.unwrap_or(BUFFERS) },
            Name::BandToeplitz => Family::BandToeplitz { bands },
            Name::BandMf => Family::BandMf { bands },
            Name::BandInverse => Family::BandInverse { bands },
            Name::LambdaCgd => Family::LambdaCgd,
            Name::Dense => Family::Dense,
        };
        self.search(family)
    }

    fn search(&self, family: Family) -> anyhow::Result<Strategy> {
        let Workload::Prefix = self.workload;
        let objective = match self.loss {
            Loss::Rms => Objective::Rms,
            Loss::Max => Objective::Max,
        };
        let target = Target::new(self.run.iterations, self.run.participation.rule()?, objective);
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        let found = optimize(family, &target, &mut |progress| {
            bar.set_message(format!("step {}, loss {:.6}", progress.iteration, progress.loss));
            ControlFlow::Continue(())
        });
        bar.finish_and_clear();
        Ok(found.map_err(bad_use)?.strategy)
    }
}
