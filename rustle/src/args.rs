//! The command line: the table of commands.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    account, batches, calibrate, certs, completions, config, demo, fetch, job, key, noise, plan, report,
    serve, token, up, verify,
};
use crate::output::{Format, Word};

/// Correlated noise for differentially private training
#[derive(Debug, Parser)]
#[command(name = "rustle", version, arg_required_else_help = true)]
pub struct Cli {
    /// Output format; markdown and html for `rustle report` only [default: table; for `rustle report`, markdown]
    #[arg(long, global = true, value_enum)]
    pub format: Option<Word>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::DemoArgs),
    Up(up::UpArgs),
    Coordinator(Box<serve::CoordinatorCommand>),
    Worker(Box<serve::WorkerCommand>),
    /// Create, inspect, rewind and finish jobs
    #[command(subcommand)]
    Job(job::JobCommand),
    Fetch(fetch::FetchArgs),
    /// Create, optimize, compare and plot plans
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Compute the privacy cost of a mechanism as ε, δ and ρ
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// Find the noise multiplier, or another parameter, that satisfies an (ε, δ)
    #[command(subcommand)]
    Calibrate(calibrate::CalibrateCommand),
    Report(Box<report::ReportArgs>),
    Batches(Box<batches::BatchesArgs>),
    /// Create job keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Create certificates for a cluster without a certificate authority of its own
    #[command(subcommand)]
    Certs(certs::CertsCommand),
    /// Create bearer tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Generate noise in this process, without a server
    Noise(noise::NoiseArgs),
    /// Compare a row of a file with the reference implementation, bit for bit
    Verify(verify::VerifyArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

impl Command {
    /// Runs the command.
    pub fn run(self, word: Option<Word>) -> anyhow::Result<ExitCode> {
        if let Self::Report(args) = self {
            return report::run(&args, word);
        }
        let format = Format::try_from(word)?;
        match self {
            Self::Report(args) => report::run(&args, word),
            Self::Demo(args) => demo::run(&args, format),
            Self::Up(args) => up::run(&args, format),
            Self::Coordinator(command) => command.run(),
            Self::Worker(command) => command.run(format),
            Self::Job(command) => command.run(format),
            Self::Fetch(args) => fetch::run(&args, format),
            Self::Plan(command) => command.run(format),
            Self::Account(command) => command.run(format),
            Self::Calibrate(command) => command.run(format),
            Self::Batches(args) => batches::run(&args, format),
            Self::Key(command) => command.run(format),
            Self::Certs(command) => command.run(format),
            Self::Token(command) => command.run(format),
            Self::Noise(args) => noise::run(&args, format),
            Self::Verify(args) => verify::run(&args, format),
            Self::Config(command) => command.run(format),
            Self::Completions(args) => completions::run(&args, Cli::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn former_names_of_commands_still_parse() {
        for (group, former, name) in [
            ("account", "zcdp", "plan"),
            ("calibrate", "zcdp", "plan"),
            ("job", "place", "hint"),
            ("job", "head", "ledger-head"),
        ] {
            let command = Cli::command();
            let found = command.find_subcommand(group).and_then(|group| group.find_subcommand(former));
            assert_eq!(found.map(clap::Command::get_name), Some(name), "{group} {former}");
        }
    }
}
