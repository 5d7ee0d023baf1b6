//! The command line of Rustle: words to functions, answers to tables or JSON.

pub mod access;
pub mod args;
pub mod certs;
pub mod cluster;
pub mod commands;
pub mod demo;
pub mod key_file;
pub mod npy;
pub mod output;
pub mod rates;
pub mod values;

use std::process::ExitCode;

use clap::Parser;

/// Runs the command line of this process. Exit status: 0 done, 1 failed, 2 bad use.
pub fn main() -> ExitCode {
    // clap itself ends the process with 2 where the words are wrong, with 0 for help.
    let cli = args::Cli::parse();
    match cli.command.run(cli.format) {
        Ok(status) => status,
        Err(error) => output::report(&error),
    }
}
