//! The command line of Rustle: parses arguments, runs the command, and prints its answer as a table or as JSON.

#![deny(clippy::print_stdout, clippy::print_stderr)] // both panic where their reader has left: `streams` does not

pub mod access;
pub mod args;
pub mod certs;
pub mod cluster;
pub mod commands;
pub mod demo;
pub mod key_file;
pub mod npy;
pub mod out_file;
pub mod output;
pub mod progress;
pub mod rates;
pub mod streams;
pub mod values;

use std::process::ExitCode;

use clap::Parser;

/// Runs the command line of this process. Exit status: 0 for success, 1 for a failure, 2 for bad use.
pub fn main() -> ExitCode {
    // clap exits by itself: with 2 on arguments that it refuses, with 0 after help.
    let cli = args::Cli::parse();
    match cli.command.run(cli.format) {
        Ok(status) => status,
        Err(error) => output::report(&error),
    }
}
