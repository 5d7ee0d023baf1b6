//! The command line of Rustle: parses arguments, runs the command, and prints its answer as a table or as JSON.

#![deny(clippy::print_stdout, clippy::print_stderr)] // both panic where their reader has left: `streams` does not

pub mod access;
pub mod args;
pub mod certs;
pub mod cluster;
pub mod commands;
pub mod demo;
pub mod figures;
mod grid_promise;
pub mod key_file;
pub mod npy;
pub mod numbers;
pub mod out_file;
pub mod output;
pub mod progress;
pub mod rates;
pub mod streams;
pub mod unreached;
pub mod values;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

/// Runs the command line of this process. Exit status: 0 for success, 1 for a failure, 2 for bad use.
pub fn main() -> ExitCode {
    let arguments = numbers::in_digits(&args::Cli::command(), std::env::args_os().collect());
    let cli = match args::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    output::set_wide(cli.wide);
    match cli.command.run(cli.format) {
        Ok(status) => status,
        Err(error) => output::report(&error),
    }
}

/// Prints an error of the arguments, or help. Returns the exit status: 2 for an error, 0 after help.
fn refused(error: &clap::Error) -> ExitCode {
    if error.kind() != ErrorKind::ValueValidation {
        error.exit()
    }
    // The parsers of the standard library name neither the form nor the range that is allowed.
    let unclear = [
        ("invalid digit found in string", "allowed: a whole number from 0 on, such as 2000, 2_000 or 2e3"),
        ("invalid float literal", "allowed: a number, such as 0.5 or 1e-6"),
        (" is not in 1..=9223372036854775807", " is not allowed; allowed: 1 or more"),
        (" is not in 1..=18446744073709551615", " is not allowed; allowed: 1 or more"),
    ];
    let text = error.to_string();
    let text = unclear.iter().fold(text, |text, (from, to)| text.replace(from, to));
    streams::note(text.trim_end());
    ExitCode::from(2)
}
