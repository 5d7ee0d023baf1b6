//! The command line: the table of commands.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::any_value::take_any_value;
use crate::commands::{
    account, audit, batches, budget, calibrate, certs, completions, config, demo, doctor, fetch, job, key,
    ledger, man, noise, plan, report, serve, status, token, up, verify,
};
use crate::output::{Format, Word};

/// Correlated noise for differentially private training
#[derive(Debug, Parser)]
#[command(name = "rustle", version, arg_required_else_help = true, mut_subcommands = put_text_below_flags)]
pub struct Cli {
    /// Output format [default: table; for `report`, markdown]
    #[arg(long, global = true, value_enum)]
    pub format: Option<Word>,
    /// Let tables be wider than 80 columns
    #[arg(long, global = true)]
    pub wide: bool,
    #[command(subcommand)]
    pub command: Command,
}

/// Prints the text of a flag below it, so that nearly every line fits in 80 columns. Lists of commands have two columns.
fn put_text_below_flags(command: clap::Command) -> clap::Command {
    if command.has_subcommands() {
        command.mut_args(take_any_value).mut_subcommands(put_text_below_flags)
    } else {
        command.next_line_help(true).mut_args(take_any_value)
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::DemoArgs),
    Up(up::UpArgs),
    Coordinator(Box<serve::CoordinatorCommand>),
    Worker(Box<serve::WorkerCommand>),
    Status(status::StatusArgs),
    Doctor(Box<doctor::DoctorArgs>),
    /// Create, inspect, rewind and finish jobs
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Record data sets and their privacy budgets, and show what is spent
    #[command(subcommand)]
    Budget(budget::BudgetCommand),
    Fetch(fetch::FetchArgs),
    /// Create, optimize, compare and plot plans
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Compute the privacy cost of a mechanism as ε, δ and ρ
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// Bound ε from below by an attack on canaries
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Find the noise multiplier or another parameter for an (ε, δ)
    #[command(subcommand)]
    Calibrate(calibrate::CalibrateCommand),
    Report(Box<report::ReportArgs>),
    Batches(Box<batches::BatchesArgs>),
    /// Create job keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Begin the ledger of a coordinator or of an MPI launch, and copy it
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Create certificates for a cluster without another authority
    #[command(subcommand)]
    Certs(certs::CertsCommand),
    /// Create, list and revoke bearer tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Generate noise in this process, without a server
    Noise(noise::NoiseArgs),
    /// Compare a row with the reference implementation, bit for bit
    Verify(verify::VerifyArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(man::ManArgs),
}

impl Command {
    /// Runs the command.
    pub fn run(self, word: Option<Word>) -> anyhow::Result<ExitCode> {
        if let Self::Report(args) = self {
            return report::run(&args, word);
        }
        if let Self::Budget(command) = self {
            return command.run(word);
        }
        let format = Format::try_from(word)?;
        match self {
            Self::Report(args) => report::run(&args, word),
            Self::Demo(args) => demo::run(&args, format),
            Self::Up(args) => up::run(&args, format),
            Self::Coordinator(command) => command.run(),
            Self::Worker(command) => command.run(format),
            Self::Doctor(args) => doctor::run(&args, format),
            Self::Status(args) => status::run(&args, format),
            Self::Job(command) => command.run(format),
            Self::Budget(command) => command.run(word),
            Self::Fetch(args) => fetch::run(&args, format),
            Self::Plan(command) => command.run(format),
            Self::Account(command) => command.run(format),
            Self::Audit(command) => command.run(format),
            Self::Calibrate(command) => command.run(format),
            Self::Batches(args) => batches::run(&args, format),
            Self::Key(command) => command.run(format),
            Self::Ledger(command) => command.run(format),
            Self::Certs(command) => command.run(format),
            Self::Token(command) => command.run(format),
            Self::Noise(args) => noise::run(&args, format),
            Self::Verify(args) => verify::run(&args, format),
            Self::Config(command) => command.run(format),
            Self::Completions(args) => completions::run(&args, Cli::command()),
            Self::Man(args) => man::run(&args, Cli::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Parses a command line. Equal forms are equal commands with equal values.
    fn parsed(words: &str) -> String {
        let arguments = std::iter::once("rustle").chain(words.split(' '));
        let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{words}: {error}"));
        format!("{:?}", cli.command)
    }

    /// Returns the words of a line, as a shell has them.
    fn words(line: &str) -> Vec<String> {
        let quoted = line.split('\'').enumerate();
        quoted
            .flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn the_examples_of_the_help_are_commands() {
        fn check(command: &clap::Command, seen: &mut usize) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.trim_start().starts_with("rustle ")) {
                let line = line.split(" | ").next().unwrap_or(line).split(" >> ").next().unwrap_or(line);
                Cli::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
                *seen += 1;
            }
            command.get_subcommands().for_each(|command| check(command, seen));
        }
        let mut seen = 0;
        check(&Cli::command(), &mut seen);
        assert!(seen > 20, "{seen} examples");
    }

    #[test]
    fn former_commands_are_the_new_ones() {
        for (former, new) in [
            ("account zcdp --plan p --delta 1e-6", "account plan --plan p --delta 1e-6"),
            (
                "calibrate zcdp --plan p --epsilon 1 --delta 1e-6",
                "calibrate plan --plan p --epsilon 1 --delta 1e-6",
            ),
            ("job place --near 0..8@here", "job hint --near 0..8@here"),
            ("job head --job j", "job ledger-head --job j"),
        ] {
            assert_eq!(parsed(former), parsed(new));
        }
    }

    #[test]
    fn former_flags_are_the_new_ones() {
        for (former, new) in [
            ("--between-failures", "--mtbf"),
            ("--longest-replay", "--max-replay"),
            ("--relieve-after", "--straggler-timeout"),
            ("--store-lease", "--leader-lease-ttl"),
        ] {
            let with = |flag: &str| parsed(&format!("coordinator {flag} 77s"));
            assert_eq!(with(former), with(new));
            assert_ne!(with(former), parsed("coordinator"), "{former}");
        }
    }

    #[test]
    fn help_names_every_flag_of_every_command() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{}: {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        let mut command = Cli::command();
        command.build();
        check(&command);
    }
}
