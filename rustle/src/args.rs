//! The words of the command line.

use std::ops::Range;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Parser, Subcommand};

use crate::commands::{
    account, batches, calibrate, certs, completions, config, demo, fetch, job, key, noise, plan, report,
    serve, token, up, verify,
};
use crate::output::{Format, Word};

/// Correlated noise for differentially private training
#[derive(Debug, Parser)]
#[command(name = "rustle", version, arg_required_else_help = true)]
pub struct Cli {
    /// How the answer is printed on standard output: table unless given, pages by `report` alone
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
    /// The life of jobs
    #[command(subcommand)]
    Job(job::JobCommand),
    Fetch(fetch::FetchArgs),
    /// Make plans, and look into them
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// What a run promises: ε, δ, ρ
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// The smallest noise multiplier for an (ε, δ), or the most of another number
    #[command(subcommand)]
    Calibrate(calibrate::CalibrateCommand),
    Report(Box<report::ReportArgs>),
    Batches(Box<batches::BatchesArgs>),
    /// Job keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Certificates, for a cluster without another authority
    #[command(subcommand)]
    Certs(certs::CertsCommand),
    /// Bearer tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Make noise in this process, without a server
    Noise(noise::NoiseArgs),
    /// Recompute a row by the oracle and compare it bit for bit
    Verify(verify::VerifyArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

impl Command {
    /// The one place where words become functions.
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
            Self::Completions(args) => completions::run(&args),
        }
    }
}

/// `a..b` as the command line takes it: a, a+1, …, b−1; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span(pub Range<u64>);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: a..b with a < b, such as 0..8";
        let (start, end) = text.split_once("..").ok_or_else(|| allowed.to_owned())?;
        let number =
            |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}; {allowed}"));
        let start = number(start)?;
        let end = number(end)?;
        if start < end { Ok(Self(start..end)) } else { Err(format!("the range is empty; {allowed}")) }
    }
}

/// A number of bytes, as in 64MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = node::config::units::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        node::config::units::parse_bytes(text).map(Self)
    }
}

/// To three digits, in powers of 1024.
impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let steps = (0..4).take_while(|step| self.0 >> (10 * (step + 1)) > 0).count();
        let value = self.0 as f64 / (1_u64 << (10 * steps)) as f64;
        match steps {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.*} {}", if value < 10.0 { 2 } else { 1 }, UNITS[steps]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_words_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bytes() {
        assert_eq!("16GiB".parse(), Ok(Bytes(16 << 30)));
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (10 << 30, "10.0 GiB"), (1 << 45, "32.0 TiB")]
        {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn spans() {
        assert_eq!("3..8".parse(), Ok(Span(3..8)));
        for bad in
            ["", "3", "3..", "..3", "8..3", "3..3", "-1..3", "0..18446744073709551616", "0..=3", "a..b"]
        {
            assert!(bad.parse::<Span>().unwrap_err().contains("a..b"), "{bad}");
        }
    }
}
