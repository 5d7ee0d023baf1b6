//! The command line of Rustle: parses arguments, runs the command, and prints its answer as a table or as JSON.

#![deny(clippy::print_stdout, clippy::print_stderr)] // both panic where their reader has left: `streams` does not

pub mod access;
mod any_value;
pub mod args;
pub mod certs;
pub mod cluster;
pub mod commands;
pub mod demo;
pub mod failure;
pub mod figures;
mod flag_of_field;
pub mod key_file;
pub mod npy;
pub mod numbers;
pub mod out_file;
pub mod output;
pub mod output_of_inputs;
pub mod plain_words;
pub mod progress;
pub mod rates;
pub mod refused;
mod settings_error;
pub mod streams;
pub mod unreached;
pub mod values;
mod wrap;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

/// Runs the command line of this process. Exit status: 0 for success, 1 for a failure, 2 for bad use.
pub fn main() -> ExitCode {
    let mut root = args::Cli::command();
    let arguments = numbers::in_digits(&root, std::env::args_os().collect());
    let parsed = root.try_get_matches_from_mut(arguments.clone()).and_then(|matches| {
        let cli = args::Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut root))?;
        Ok((cli, matches))
    });
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refused::refused(&error, &arguments),
    };
    output::set_wide(cli.wide);
    flag_of_field::set_flags(&root);
    failure::set_json(cli.format == Some(output::Word::Json));
    let done = output_of_inputs::refuse(&root, &matches).and_then(|()| cli.command.run(cli.format));
    match done {
        Ok(status) => status,
        Err(error) => output::report(&error),
    }
}
