//! `reproduce`: makes figures and tables of five papers again.

use std::process::ExitCode;

use clap::Parser;

/// Figures and tables of five papers, made again, each beside what was published
#[derive(Parser, Debug)]
#[command(name = "reproduce", version)]
struct Cli {
    #[command(flatten)]
    args: reproduce::Args,
}

fn main() -> ExitCode {
    match reproduce::run(&Cli::parse().args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reproduce: {error:#}");
            ExitCode::FAILURE
        }
    }
}
