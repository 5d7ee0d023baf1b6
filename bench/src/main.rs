//! Measurements that anyone can run: every figure is a ratio to the machine's own limit, taken in the same run.

mod limits;
mod throughput;

use std::process::ExitCode;

use clap::Parser;

/// Measure Rustle against this machine's limits
#[derive(Parser, Debug)]
#[command(name = "bench", version)]
enum Cli {
    /// Rows of every mechanism beside copy bandwidth and keystream, in one run
    Throughput(throughput::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse() {
        Cli::Throughput(args) => throughput::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
