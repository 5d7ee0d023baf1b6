//! Measurements that anyone can run: each figure beside a limit of this machine or a peer, in turn with it.

mod accounting;
mod admission;
mod arguments;
mod cases;
mod checkpoint;
mod cluster;
mod comparison;
mod coordinator;
mod elastic;
mod http;
mod job;
mod kernels;
mod ledger;
mod limits;
mod memory;
mod mpi;
mod output;
mod peers;
mod program;
mod roofline;
mod scale;
mod serve;
mod strategy;

use std::process::ExitCode;

use clap::Parser;

/// Measure Rustle against this machine's limits and against other libraries
#[derive(Parser, Debug)]
#[command(name = "bench", version)]
enum Cli {
    /// Rows of every mechanism, from cache to memory, as fractions of what this machine could do at best
    Kernels(kernels::Args),
    /// The same work by Rustle and by jax-privacy, NumPy and PyTorch, in turn
    Peers(peers::Args),
    /// Rates as threads and workers are added, and costs as rows, coordinates and bands grow
    Scale(scale::Args),
    /// Rows that are ready, over every transport, beside bare sockets, a bare tonic echo and one copy of memory
    Serve(serve::Args),
    /// Rows that are ready, over MPI and in a shared window, beside bare sends and one copy of memory
    Mpi(mpi::Args),
    /// What checkpoints cost a job, and what restoring takes
    Checkpoint(checkpoint::Args),
    /// A coordinator on one core, asked by thousands of simulated workers and jobs
    Coordinator(coordinator::Args),
    /// The time and the memory that opening a ledger takes, as bound rows grow
    Ledger(ledger::Args),
    /// The time to decide on a job of a data set that is charged for many jobs of mixed kinds
    Admission(admission::Args),
    /// How late rows are while workers come, leave and are lost, and while shards are split and merged
    Elastic(elastic::Args),
    /// Our optimisers of strategies beside those of jax-privacy: losses, and the time to find them
    Strategy(strategy::Args),
    /// Our accounts beside dp-accounting's: ε of sampled rounds, of trees and of balls-in-bins, and the time they take
    Accounting(accounting::Args),
    /// The figures and tables of the crate `reproduce`, which has a program of its own
    #[command(hide = true)]
    Reproduce(reproduce::Args),
    /// One opening of `ledger`
    #[command(hide = true)]
    LedgerOpen(ledger::OpenArgs),
    /// One worker of `scale`: measures whenever a line comes in
    #[command(hide = true)]
    Worker(scale::worker::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse() {
        Cli::Kernels(args) => kernels::run(&args),
        Cli::Peers(args) => peers::run(&args),
        Cli::Scale(args) => scale::run(&args),
        Cli::Serve(args) => serve::run(args),
        Cli::Mpi(args) => mpi::run(&args),
        Cli::Checkpoint(args) => checkpoint::run(&args),
        Cli::Coordinator(args) => coordinator::run(&args),
        Cli::Ledger(args) => ledger::run(&args),
        Cli::LedgerOpen(args) => ledger::open(&args),
        Cli::Admission(args) => admission::run(&args),
        Cli::Elastic(args) => elastic::run(&args),
        Cli::Strategy(args) => strategy::run(&args),
        Cli::Accounting(args) => accounting::run(&args),
        Cli::Reproduce(args) => reproduce::run(&args),
        Cli::Worker(args) => scale::worker::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
