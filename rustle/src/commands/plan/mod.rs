//! `rustle plan`: creates, compares and plots plans.

mod amplified;
mod batch_size;
mod coefficients;
mod compare;
mod extend;
mod from;
mod grid;
mod lint;
mod make;
mod optimize;
mod plot;
mod resources;
mod show;
mod sizing;
mod suggest;
mod workload;

use std::process::ExitCode;

use clap::Subcommand;

use crate::output::Format;

#[derive(Clone, Debug, Subcommand)]
pub enum PlanCommand {
    /// Optimize the parameters of a mechanism for the smallest loss
    Optimize(optimize::OptimizeArgs),
    /// Compare every mechanism at one (ε, δ) and recommend one
    Suggest(suggest::SuggestArgs),
    /// Recommend a batch size and a number of rounds, for a data set and a number of gradients
    BatchSize(batch_size::BatchSizeArgs),
    /// Compare plans side by side
    Compare(compare::CompareArgs),
    /// Plot plans as SVG
    Plot(plot::PlotArgs),
    /// Compute the memory, network and time that workers need
    Resources(resources::ResourcesArgs),
    /// Create a plan from known parameters
    From(from::FromArgs),
    /// Make a plan longer, of a mechanism that continues
    Extend(extend::ExtendArgs),
    /// Print what a plan says and what follows from it: sensitivity, state, grid
    Show(show::ShowArgs),
    /// Check a plan for what is risky or odd, and say what to do; exit status 1 if something is an error
    Lint(lint::LintArgs),
    /// Print coefficients of C or C⁻¹
    Coefficients(coefficients::CoefficientsArgs),
}

impl PlanCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        match self {
            Self::Optimize(args) => optimize::run(&args, format),
            Self::Suggest(args) => suggest::run(&args, format),
            Self::BatchSize(args) => batch_size::run(&args, format),
            Self::Compare(args) => compare::run(&args, format),
            Self::Plot(args) => plot::run(&args, format),
            Self::Resources(args) => resources::run(&args, format),
            Self::From(args) => from::run(&args, format),
            Self::Extend(args) => extend::run(&args, format),
            Self::Show(args) => show::run(&args, format),
            Self::Lint(args) => lint::run(&args, format),
            Self::Coefficients(args) => coefficients::run(&args, format),
        }
    }
}
