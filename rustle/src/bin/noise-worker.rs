//! The `noise-worker` binary: `rustle worker` as a program of its own, which drains on SIGTERM.
//!
//! The binary of the same name with the subcommand `mpi` belongs to the crate rustle-mpi.

use std::process::ExitCode;

use clap::Parser;
use node::process::runtime::Runtime;
use node::telemetry::TelemetryArgs;

#[derive(Parser, Debug)]
#[command(name = "noise-worker", version, about)]
struct Cli {
    #[command(flatten)]
    args: noise_worker::config::WorkerArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noise-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<()> {
    Runtime::new()?.block_on(async {
        let _telemetry = cli.telemetry.init("rustle-worker")?;
        noise_worker::run(cli.args, node::process::shutdown::token_on_signals()?).await
    })
}
