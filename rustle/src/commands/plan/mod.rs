//! `rustle plan`: make plans, and look into them.

mod amplified;
mod coefficients;
mod compare;
mod from;
mod make;
mod optimize;
mod plot;
mod resources;
mod sizing;
mod suggest;
mod workload;

use std::process::ExitCode;

use clap::Subcommand;

use crate::output::Format;

#[derive(Clone, Debug, Subcommand)]
pub enum PlanCommand {
    /// Find the parameters with the least loss
    Optimize(optimize::OptimizeArgs),
    /// Weigh every mechanism at one (ε, δ) and recommend one
    Suggest(suggest::SuggestArgs),
    /// Plans side by side
    Compare(compare::CompareArgs),
    /// Charts of plans as SVG
    Plot(plot::PlotArgs),
    /// What workers of a plan need: memory, network, storage, time
    Resources(resources::ResourcesArgs),
    /// A plan from known parameters
    From(from::FromArgs),
    /// Coefficients of C or its inverse: the first column of a Toeplitz matrix, or a row of any
    Coefficients(coefficients::CoefficientsArgs),
}

impl PlanCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        match self {
            Self::Optimize(args) => optimize::run(&args, format),
            Self::Suggest(args) => suggest::run(&args, format),
            Self::Compare(args) => compare::run(&args, format),
            Self::Plot(args) => plot::run(&args, format),
            Self::Resources(args) => resources::run(&args, format),
            Self::From(args) => from::run(&args, format),
            Self::Coefficients(args) => coefficients::run(&args, format),
        }
    }
}
