//! `rustle plan from`: a plan from known parameters.

use std::process::ExitCode;

use clap::Args;
use plan::Mechanism;
use strategy::Workload;

use super::make::{Name, RunArgs, with_losses, with_parameters};
use crate::output::{Answer, Format, bad_use};

#[derive(Clone, Debug, Args)]
pub struct FromArgs {
    /// The mechanism
    #[arg(long, value_name = "M", value_enum)]
    mechanism: Name,
    #[command(flatten)]
    run: RunArgs,
    /// σ, in units of the clip norm
    #[arg(long, value_name = "X")]
    noise_multiplier: f64,
    /// Decays of a BLT
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', allow_hyphen_values = true)]
    theta: Option<Vec<f64>>,
    /// Output weights of a BLT
    #[arg(long, value_name = "C,D,…", value_delimiter = ',', allow_hyphen_values = true)]
    omega: Option<Vec<f64>>,
    /// First column of C (band-toeplitz) or of its inverse (band-inverse)
    #[arg(long, value_name = "C0,C1,…", value_delimiter = ',', allow_hyphen_values = true)]
    coefficients: Option<Vec<f64>>,
    /// Divide each column of band-toeplitz by its norm
    #[arg(long)]
    column_normalised: bool,
    /// Diagonals of band-sqrt or band-inverse-sqrt
    #[arg(long, value_name = "P")]
    bands: Option<u64>,
    /// λ of lambda-cgd
    #[arg(long, value_name = "L", allow_hyphen_values = true)]
    lambda: Option<f64>,
    /// Rounds at which a tree starts afresh
    #[arg(long, value_name = "ROUNDS", value_delimiter = ',')]
    restarts: Option<Vec<u64>>,
    /// Fill each tree with virtual steps before a restart
    #[arg(long)]
    completion: bool,
}

pub fn run(args: &FromArgs, format: Format) -> anyhow::Result<ExitCode> {
    let mechanism = args.clone().mechanism()?;
    let plan = args.run.plan(mechanism, args.noise_multiplier)?;
    let strategy = plan.strategy();
    let answer = with_losses(Answer::new(), &strategy, &args.run, &Workload::Prefix)?
        .with("noise_multiplier", args.noise_multiplier);
    let answer = with_parameters(answer, plan.mechanism(), &strategy)?;
    args.run.deliver(&plan, answer)?.print(format)?;
    Ok(ExitCode::SUCCESS)
}

impl FromArgs {
    /// Error: a flag that is missing, or that the mechanism doesn't take.
    fn mechanism(mut self) -> anyhow::Result<Mechanism> {
        let mechanism = match self.mechanism {
            Name::Identity => Mechanism::Identity,
            Name::Tree => Mechanism::Tree {
                restarts: self.restarts.take().unwrap_or_default(),
                completion: std::mem::take(&mut self.completion),
            },
            Name::Blt => Mechanism::Blt {
                theta: needed(self.theta.take(), "theta")?,
                omega: needed(self.omega.take(), "omega")?,
            },
            Name::BandToeplitz => Mechanism::BandToeplitz {
                coefficients: needed(self.coefficients.take(), "coefficients")?,
                column_normalised: std::mem::take(&mut self.column_normalised),
            },
            Name::BandInverse => {
                Mechanism::BandInverse { coefficients: needed(self.coefficients.take(), "coefficients")? }
            }
            Name::BandSqrt => Mechanism::BandSqrt { bands: needed(self.bands.take(), "bands")? },
            Name::BandInverseSqrt => {
                Mechanism::BandInverseSqrt { bands: needed(self.bands.take(), "bands")? }
            }
            Name::LambdaCgd => Mechanism::LambdaCgd { lambda: needed(self.lambda.take(), "lambda")? },
            Name::BandMf | Name::Dense => {
                return Err(bad_use(
                    "band-mf and dense take a matrix: write it into plan.toml, or optimize one",
                ));
            }
        };
        self.nothing_left()?;
        Ok(mechanism)
    }

    fn nothing_left(&self) -> anyhow::Result<()> {
        let left = [
            ("theta", self.theta.is_some()),
            ("omega", self.omega.is_some()),
            ("coefficients", self.coefficients.is_some()),
            ("column-normalised", self.column_normalised),
            ("bands", self.bands.is_some()),
            ("lambda", self.lambda.is_some()),
            ("restarts", self.restarts.is_some()),
            ("completion", self.completion),
        ];
        match left.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => {
                Err(bad_use(format!("--{flag} does not belong to --mechanism {:?}", self.mechanism)))
            }
        }
    }
}

fn needed<T>(value: Option<T>, flag: &str) -> anyhow::Result<T> {
    value.ok_or_else(|| bad_use(format!("--{flag} is missing: this mechanism needs it")))
}
