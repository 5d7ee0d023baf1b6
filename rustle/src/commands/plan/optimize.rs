//! `rustle plan optimize`: the parameters with the least loss.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use plan::Mechanism;
use strategy::optimize::{Family, Optimized, Target, optimize};
use strategy::{Participation, Workload};

use super::amplified::{AmplifyArgs, warn_of_few_samples};
use super::make::{Name, RunArgs, with_losses, with_parameters};
use super::workload::ReleaseArgs;
use crate::commands::cancel::Cancel;
use crate::output::{Answer, Format, bad_use};

/// Most buffers of a BLT where no count is given: as many are taken as gain more than 0.01 %.
const BUFFERS: usize = 8;

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
    /// Buffers of a BLT, 1 to 12; as many as pay where left away
    #[arg(long, value_name = "D")]
    buffers: Option<usize>,
    /// Scale every column of band-toeplitz to norm one, those near n by their own, and optimise for that
    #[arg(long)]
    column_normalised: bool,
    /// Search the band-toeplitz family (1−x)^(−α) alone, for one number instead of P
    #[arg(long, conflicts_with = "column_normalised")]
    power: bool,
    /// Let users take part in rounds i, i+B, i+2B, … alone: fewer constraints on dense
    #[arg(long)]
    fixed_epoch: bool,
    #[command(flatten)]
    release: ReleaseArgs,
    /// Further min-seps the run may turn out to have: the mean loss over all of them is made small
    #[arg(long, value_name = "B,…", value_delimiter = ',')]
    also_min_sep: Vec<u64>,
    /// σ of the plan; `rustle calibrate zcdp` finds the one for an (ε, δ)
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    noise_multiplier: f64,
    #[command(flatten)]
    amplify: AmplifyArgs,
}

pub fn run(args: &OptimizeArgs, format: Format) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    args.check_sizes()?;
    let workload = args.release.workload(args.run.iterations)?;
    let asked = args.amplify.asked(&args.run)?;
    let target = args.target(workload.clone())?;
    let mut found = args.search(args.family()?, &target)?;
    let amplified = match &asked {
        Some(asked) if !found.stopped => Some((asked, asked.search(&found.strategy, &target)?)),
        Some(_) => return Err(bad_use("ended before the search under amplification began")),
        None => None,
    };
    let mut noise_multiplier = args.noise_multiplier;
    if let Some((_, amplified)) = &amplified {
        let best = amplified.best();
        noise_multiplier =
            plan::noise_multiplier_to_run(best.calibrated.noise_multiplier, args.run.clip_norm);
        found.strategy = best.strategy.clone();
        found.loss = target.loss(&best.strategy).map_err(bad_use)?;
        (found.converged, found.stopped) = (amplified.converged, amplified.stopped);
    }
    let seconds = start.elapsed().as_secs_f64();
    let mechanism = Mechanism::try_from(&found.strategy)?;
    let answer = with_losses(Answer::new(), &found.strategy, &args.run, &workload)?
        .with("workload", workload.name())
        .with("optimised_for", args.release.objective(args.run.iterations)?.name())
        .with("loss", found.loss)
        .with("loss_schema", if args.fixed_epoch { "fixed-epoch" } else { "min-sep" })
        .with("steps", found.iterations)
        .with("converged", found.converged)
        .with("stopped", found.stopped)
        .with("seconds", seconds);
    let mut answer = with_parameters(answer, &mechanism, &found.strategy)?;
    if let Some((asked, amplified)) = &amplified {
        answer = asked.describe(answer, amplified).with("noise_multiplier", noise_multiplier);
        warn_of_few_samples(amplified);
    }
    let plan = args.run.plan(mechanism, noise_multiplier)?;
    args.run.deliver(&plan, answer)?.print(format)?;
    if !found.converged {
        eprintln!("warning: the search ended before it settled; this is the best point it found");
    }
    Ok(ExitCode::SUCCESS)
}

impl OptimizeArgs {
    fn check_sizes(&self) -> anyhow::Result<()> {
        let blt = self.mechanism == Name::Blt;
        let name = self.mechanism;
        if self.buffers.is_some() && !blt {
            return Err(bad_use(format!("--buffers belongs to blt, not to {name:?}")));
        }
        let banded = !matches!(name, Name::Identity | Name::Tree | Name::Blt | Name::LambdaCgd | Name::Dense);
        if self.bands.is_some() && !banded {
            return Err(bad_use(format!("--bands belongs to the banded mechanisms, not to {name:?}")));
        }
        if (self.column_normalised || self.power) && name != Name::BandToeplitz {
            let flag = if self.power { "--power" } else { "--column-normalised" };
            return Err(bad_use(format!("{flag} belongs to band-toeplitz, not to {name:?}")));
        }
        if self.fixed_epoch && !self.also_min_sep.is_empty() {
            return Err(bad_use("--fixed-epoch has one period; --also-min-sep belongs to min-sep"));
        }
        if self.fixed_epoch && name != Name::Dense {
            return Err(bad_use(format!("--fixed-epoch belongs to dense, not to {name:?}")));
        }
        match self.bands {
            Some(bands) if !(1..=self.run.iterations).contains(&bands) => Err(bad_use(format!(
                "--bands is {bands}; allowed: 1 to {} (iterations)",
                self.run.iterations
            ))),
            _ => Ok(()),
        }
    }

    fn family(&self) -> anyhow::Result<Family> {
        let bands = self.bands.unwrap_or(self.run.participation.min_sep.min(self.run.iterations));
        let bands = usize::try_from(bands)?;
        Ok(match self.mechanism {
            Name::Identity => Family::Identity,
            Name::Tree => Family::Tree,
            Name::BandSqrt => Family::BandSqrt { bands },
            Name::BandInverseSqrt => Family::BandInverseSqrt { bands },
            Name::Blt => match self.buffers {
                Some(buffers) => Family::Blt { buffers },
                None => Family::BltAuto { max_buffers: BUFFERS },
            },
            Name::BandToeplitz if self.power => Family::BandPower { bands },
            Name::BandToeplitz if self.column_normalised => Family::BandToeplitzNormalised { bands },
            Name::BandToeplitz => Family::BandToeplitz { bands },
            Name::BandMf => Family::BandMf { bands },
            Name::BandInverse => Family::BandInverse { bands },
            Name::LambdaCgd => Family::LambdaCgd,
            Name::Dense if self.fixed_epoch => Family::DenseFixedEpoch,
            Name::Dense => Family::Dense,
        })
    }

    fn target(&self, workload: Workload) -> anyhow::Result<Target> {
        let n = self.run.iterations;
        let rule = self.run.rule()?;
        let also = self.also_min_sep.iter().map(|gap| {
            let rule = Participation::new(*gap, rule.max_participations).map_err(bad_use)?;
            rule.fits(n).map_err(bad_use)?;
            Ok(rule)
        });
        let mut rules = also.collect::<anyhow::Result<Vec<_>>>()?;
        if !rules.is_empty() {
            rules.insert(0, rule);
        }
        let target = Target::new(n, rule, self.release.objective(n)?);
        Ok(target.with_workload(workload).with_participations(rules))
    }

    fn search(&self, family: Family, target: &Target) -> anyhow::Result<Optimized> {
        let cancel = Cancel::on_ctrl_c();
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        let found = optimize(family, target, &mut |progress| {
            bar.set_message(format!(
                "step {}, loss {:.6} (Ctrl-C ends it with the best so far)",
                progress.iteration, progress.loss
            ));
            cancel.flow()
        });
        bar.finish_and_clear();
        found.map_err(bad_use)
    }
}
