//! `rustle plan`: make plans, and look into them.

mod coefficients;
mod from;
mod make;
mod optimize;

use std::process::ExitCode;

use clap::Subcommand;

use crate::output::Format;

#[derive(Clone, Debug, Subcommand)]
pub enum PlanCommand {
    /// Find the parameters with the least loss for prefix sums
    Optimize(optimize::OptimizeArgs),
    /// A plan from known parameters
    From(from::FromArgs),
    /// Coefficients of C or its inverse: the first column of a Toeplitz matrix, or a row of any
    Coefficients(coefficients::CoefficientsArgs),
}

impl PlanCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        match self {
            Self::Optimize(args) => optimize::run(&args, format),
            Self::From(args) => from::run(&args, format),
            Self::Coefficients(args) => coefficients::run(&args, format),
        }
    }
}
