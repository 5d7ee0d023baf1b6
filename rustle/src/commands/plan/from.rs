//! `rustle plan from`: creates a plan from known parameters.

use std::process::ExitCode;

use clap::Args;
use plan::Mechanism;
use strategy::{MechanismKind, Workload};

use super::make::{RunArgs, mechanism_parser, with_losses, with_parameters};
use crate::commands::conditional_flags::{refuse_given, required};
use crate::output::{Answer, Format, bad_use};
use crate::streams;

#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  \
    rustle plan from --mechanism blt --theta 0.9,0.5 --omega 0.2,0.3 --iterations 2000 --min-sep 400 \
    --max-participations 5 --noise-multiplier 1.1 --dimension 1000000 --batch-size 32 --out plan.toml")]
pub struct FromArgs {
    /// Mechanism; each takes the flags that name it
    #[arg(long, value_name = "MECHANISM", value_parser = mechanism_parser())]
    mechanism: MechanismKind,
    #[command(flatten)]
    run: RunArgs,
    /// Noise multiplier σ, in units of the clip norm
    #[arg(long, value_name = "X")]
    noise_multiplier: f64,
    /// Decays of blt, separated by commas, one per buffer
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', allow_hyphen_values = true)]
    theta: Option<Vec<f64>>,
    /// Output weights of blt, separated by commas, one per buffer
    #[arg(long, value_name = "C,D,…", value_delimiter = ',', allow_hyphen_values = true)]
    omega: Option<Vec<f64>>,
    /// First column of C for band-toeplitz, or of C⁻¹ for band-inverse
    #[arg(long, value_name = "C0,C1,…", value_delimiter = ',', allow_hyphen_values = true)]
    coefficients: Option<Vec<f64>>,
    /// Divide each column of C by its norm, for band-toeplitz
    #[arg(long)]
    column_normalised: bool,
    /// Scales of C's columns, separated by commas, for blt and band-toeplitz: above 0 and never rising, each for
    /// --rounds-per-scale rounds, the last one to the end [default: none]
    #[arg(
        long,
        value_name = "S0,S1,…",
        value_delimiter = ',',
        allow_hyphen_values = true,
        requires = "rounds_per_scale"
    )]
    column_scales: Option<Vec<f64>>,
    /// Number of rounds of each of --column-scales
    #[arg(long, value_name = "R", requires = "column_scales")]
    rounds_per_scale: Option<u64>,
    /// Number of bands of C for band-sqrt, or of C⁻¹ for band-inverse-sqrt
    #[arg(long, value_name = "P")]
    bands: Option<u64>,
    /// Parameter λ of lambda-cgd
    #[arg(long, value_name = "L", allow_hyphen_values = true)]
    lambda: Option<f64>,
    /// Rounds that start a new tree, separated by commas, for tree [default: none]
    #[arg(long, value_name = "ROUNDS", value_delimiter = ',')]
    restarts: Option<Vec<u64>>,
    /// Fill each tree with virtual steps before a restart, for tree
    #[arg(long)]
    completion: bool,
}

pub fn run(args: &FromArgs, format: Format) -> anyhow::Result<ExitCode> {
    let mechanism = args.clone().mechanism()?;
    let plan = args.run.plan(mechanism, args.noise_multiplier)?;
    if args.noise_multiplier == 0.0 {
        streams::note("warning: --noise-multiplier is 0: a run of this plan is not private");
    }
    let strategy = plan.strategy();
    let answer = with_losses(Answer::new(), &strategy, &args.run, &Workload::Prefix)?
        .with("noise_multiplier", args.noise_multiplier);
    let answer = with_parameters(answer, plan.mechanism(), &strategy)?;
    let answer = args.run.deliver(&plan, args.run.open_out()?, answer)?;
    args.run.print(&answer, format)?;
    Ok(ExitCode::SUCCESS)
}

impl FromArgs {
    /// Returns the mechanism. Errors: a flag that it requires is missing, or one that it does not take is given.
    fn mechanism(mut self) -> anyhow::Result<Mechanism> {
        let choice = format!("--mechanism {}", self.mechanism.name());
        let mechanism = match self.mechanism {
            MechanismKind::Identity => Mechanism::Identity,
            MechanismKind::Tree => Mechanism::Tree {
                restarts: self.restarts.take().unwrap_or_default(),
                completion: std::mem::take(&mut self.completion),
            },
            MechanismKind::Blt => Mechanism::Blt {
                theta: required(self.theta.take(), "--theta", &choice)?,
                omega: required(self.omega.take(), "--omega", &choice)?,
            },
            MechanismKind::BandToeplitz => Mechanism::BandToeplitz {
                coefficients: required(self.coefficients.take(), "--coefficients", &choice)?,
                column_normalised: std::mem::take(&mut self.column_normalised),
            },
            MechanismKind::BandInverse => Mechanism::BandInverse {
                coefficients: required(self.coefficients.take(), "--coefficients", &choice)?,
            },
            MechanismKind::BandSqrt => {
                Mechanism::BandSqrt { bands: required(self.bands.take(), "--bands", &choice)? }
            }
            MechanismKind::BandInverseSqrt => {
                Mechanism::BandInverseSqrt { bands: required(self.bands.take(), "--bands", &choice)? }
            }
            MechanismKind::LambdaCgd => {
                Mechanism::LambdaCgd { lambda: required(self.lambda.take(), "--lambda", &choice)? }
            }
            MechanismKind::BandMf | MechanismKind::Dense => {
                return Err(bad_use(format!(
                    "{choice} takes a matrix, which no flag holds; write it to plan.toml, or use `rustle plan optimize`"
                )));
            }
        };
        let mechanism = self.scaled(mechanism);
        self.refuse_given(&choice)?;
        Ok(mechanism)
    }

    /// The mechanism with the scales of its columns, where there are any and it may have them.
    fn scaled(&mut self, base: Mechanism) -> Mechanism {
        match (&base, self.rounds_per_scale) {
            (Mechanism::Blt { .. } | Mechanism::BandToeplitz { .. }, Some(rounds_per_scale)) => {
                Mechanism::Scaled {
                    base: Box::new(base),
                    column_scales: self.column_scales.take().unwrap_or_default(),
                    rounds_per_scale,
                }
            }
            _ => base,
        }
    }

    fn refuse_given(&self, choice: &str) -> anyhow::Result<()> {
        let flags = [
            ("--theta", self.theta.is_some()),
            ("--omega", self.omega.is_some()),
            ("--coefficients", self.coefficients.is_some()),
            ("--column-normalised", self.column_normalised),
            ("--column-scales", self.column_scales.is_some()),
            ("--bands", self.bands.is_some()),
            ("--lambda", self.lambda.is_some()),
            ("--restarts", self.restarts.is_some()),
            ("--completion", self.completion),
        ];
        refuse_given(&flags, choice)
    }
}
