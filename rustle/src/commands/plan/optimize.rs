//! `rustle plan optimize`: finds the parameters with the smallest loss.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};
use plan::{Mechanism, Plan};
use strategy::optimize::{Family, Optimized, Target, optimize};
use strategy::{MechanismKind, Participation, Workload};

use super::amplified::{AmplifyArgs, warn_of_few_samples};
use super::make::{RunArgs, mechanism_parser, with_losses, with_parameters};
use super::workload::ReleaseArgs;
use crate::commands::cancel::Cancel;
use crate::commands::conditional_flags::refuse_given;
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;
use crate::streams;

/// Maximum number of buffers of a BLT where no count is given. A buffer is added while it gains more than 0.01 %.
const BUFFERS: usize = 8;

/// How far a norm may be above 1 by rounding.
const COLUMN_NORM_ROUNDING: f64 = 1e-6;

/// The norms of a band matrix's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColumnNorms {
    /// One for each epoch of min-sep rounds
    ByEpoch,
    /// All equal
    Equal,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  \
    rustle plan optimize --mechanism blt --iterations 2000 --min-sep 400 --max-participations 5 \
    --noise-multiplier 4 --dimension 1000000 --batch-size 32 --out plan.toml")]
pub struct OptimizeArgs {
    /// Mechanism to optimize
    #[arg(long, value_name = "MECHANISM", value_parser = mechanism_parser())]
    mechanism: MechanismKind,
    #[command(flatten)]
    run: RunArgs,
    /// Number of bands of C or C⁻¹, for the banded mechanisms, from 1 to n [default: min-sep]
    #[arg(long, value_name = "P", conflicts_with = "buffers")]
    bands: Option<u64>,
    /// Number of buffers, for blt, from 1 to 12 [default: up to 8, while one more gains over 0.01 %]
    #[arg(long, value_name = "D")]
    buffers: Option<usize>,
    /// Divide each column of C by its norm and optimize for that, for band-toeplitz
    #[arg(long)]
    column_normalised: bool,
    /// Norms of C's columns, for band-mf, band-toeplitz and blt: one for each epoch of min-sep rounds, which makes the rms
    /// loss smaller at the same sensitivity, or equal, as published [default: by-epoch for band-mf, else equal]
    #[arg(long, value_name = "NORMS", value_enum)]
    column_norms: Option<ColumnNorms>,
    /// Search only the family (1−x)^(−α), of one parameter, for band-toeplitz
    #[arg(long, conflicts_with = "column_normalised")]
    power: bool,
    /// Assume that a user takes part in rounds i, i+B, i+2B, … alone, for dense
    #[arg(long)]
    fixed_epoch: bool,
    #[command(flatten)]
    release: ReleaseArgs,
    /// Further values of min-sep, to minimize the mean loss over all [default: none]
    #[arg(long, value_name = "B,…", value_delimiter = ',')]
    also_min_sep: Vec<u64>,
    /// Noise multiplier σ of the plan; see `rustle calibrate plan`
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    noise_multiplier: f64,
    #[command(flatten)]
    amplify: AmplifyArgs,
}

pub fn run(args: &OptimizeArgs, format: Format) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    args.run.check(args.noise_multiplier)?;
    args.check_sizes()?;
    let workload = args.release.workload(args.run.iterations)?;
    let amplified_search = args.amplify.search(&args.run)?;
    if amplified_search.is_some() && args.mechanism == MechanismKind::Blt && args.run.grid.is_on_grid() {
        let text = "--mechanism is blt; allowed with --amplify: any but blt, whose rows on a grid have no amplified account, or --float";
        return Err(bad_use(text));
    }
    let target = args.target(workload.clone())?;
    let family = args.family()?;
    let out = args.run.open_out()?;
    let mut found = args.search(family, &target)?;
    let amplified = match &amplified_search {
        Some(search) if !found.stopped => Some((search, search.run(&found.strategy, &target)?)),
        Some(_) => {
            return Err(bad_use("the search was stopped before its second part, under amplification, began"));
        }
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
    let plan = match &amplified {
        Some(_) => args.run.plan_for_promise(mechanism.clone(), noise_multiplier)?,
        None => args.run.plan(mechanism.clone(), noise_multiplier)?,
    };
    let mut answer = with_parameters(answer, &mechanism, &found.strategy)?;
    if let Some((search, amplified)) = &amplified {
        answer = search.describe(answer, amplified).with("noise_multiplier", plan.noise_multiplier());
        warn_of_few_samples(amplified);
    }
    args.run.print(&args.run.deliver(&plan, out, answer)?, format)?;
    warn_of_column_norms(&plan)?;
    if !found.converged {
        streams::note("warning: the search ended before it converged; the plan is the best one found");
    }
    Ok(ExitCode::SUCCESS)
}

/// An account of bands by their number alone is for columns of norm at most 1.
fn warn_of_column_norms(plan: &Plan) -> anyhow::Result<()> {
    if !matches!(plan.mechanism(), Mechanism::BandMf { .. }) {
        return Ok(());
    }
    let norm = plan.accounted_column_norm().map_err(bad_use)?;
    if norm > 1.0 + COLUMN_NORM_ROUNDING {
        streams::note(format!(
            "note: a record's largest column has norm {norm:.6}: account for sampled batches by `rustle report --sampling …`, \
             not `account band-mf`, which is for columns of norm at most 1 (--column-norms equal)"
        ));
    }
    Ok(())
}

impl OptimizeArgs {
    fn check_sizes(&self) -> anyhow::Result<()> {
        use MechanismKind::{BandMf, BandToeplitz, Blt, Dense, Identity, LambdaCgd, Tree};
        let is_scaled = self.column_norms == Some(ColumnNorms::ByEpoch);
        let kind = self.mechanism;
        let is_banded = !matches!(kind, Identity | Tree | Blt | LambdaCgd | Dense);
        let flags = [
            ("--buffers", self.buffers.is_some() && kind != Blt),
            ("--bands", self.bands.is_some() && !is_banded),
            ("--column-normalised", self.column_normalised && kind != BandToeplitz),
            ("--power", self.power && kind != BandToeplitz),
            ("--column-norms", self.column_norms.is_some() && !matches!(kind, BandMf | BandToeplitz | Blt)),
            ("--fixed-epoch", self.fixed_epoch && kind != Dense),
        ];
        refuse_given(&flags, &format!("--mechanism {}", kind.name()))?;
        let equal = [
            ("--power", self.power && is_scaled),
            ("--column-normalised", self.column_normalised && is_scaled),
        ];
        refuse_given(&equal, "--column-norms by-epoch")?;
        if is_scaled && kind == Blt && self.run.grid.is_on_grid() {
            let text = "--column-norms is by-epoch for blt; allowed: equal, or --float, as the scaled columns of a blt have no \
                        rows on a grid; or --mechanism band-toeplitz";
            return Err(bad_use(text));
        }
        refuse_given(
            &[("--also-min-sep", self.fixed_epoch && !self.also_min_sep.is_empty())],
            "--fixed-epoch",
        )?;
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
            MechanismKind::Identity => Family::Identity,
            MechanismKind::Tree => Family::Tree,
            MechanismKind::BandSqrt => Family::BandSqrt { bands },
            MechanismKind::BandInverseSqrt => Family::BandInverseSqrt { bands },
            MechanismKind::Blt => match (self.buffers, self.column_norms) {
                (Some(buffers), Some(ColumnNorms::ByEpoch)) => Family::BltByEpoch { buffers },
                (Some(buffers), _) => Family::Blt { buffers },
                (None, Some(ColumnNorms::ByEpoch)) => Family::BltAutoByEpoch { max_buffers: BUFFERS },
                (None, _) => Family::BltAuto { max_buffers: BUFFERS },
            },
            MechanismKind::BandToeplitz if self.power => Family::BandPower { bands },
            MechanismKind::BandToeplitz if self.column_normalised => Family::BandToeplitzNormalised { bands },
            MechanismKind::BandToeplitz if self.column_norms == Some(ColumnNorms::ByEpoch) => {
                Family::BandToeplitzByEpoch { bands }
            }
            MechanismKind::BandToeplitz => Family::BandToeplitz { bands },
            MechanismKind::BandMf => match self.column_norms {
                Some(ColumnNorms::Equal) => Family::BandMf { bands },
                _ => Family::BandMfByEpoch { bands },
            },
            MechanismKind::BandInverse => Family::BandInverse { bands },
            MechanismKind::LambdaCgd => Family::LambdaCgd,
            MechanismKind::Dense if self.fixed_epoch => Family::DenseFixedEpoch,
            MechanismKind::Dense => Family::Dense,
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
        let spinner = Progress::spinner("optimizing");
        let found = optimize(family, target, &mut |progress| {
            spinner.set_message(format!(
                "step {}, loss {:.6} (Ctrl-C ends the search with the best result so far)",
                progress.iteration, progress.loss
            ));
            cancel.flow()
        });
        found.map_err(bad_use)
    }
}
