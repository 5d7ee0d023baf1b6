//! `noise-worker` with the subcommand `mpi`. Without the subcommand it is the worker that `rustle` ships under this name.

use std::process::ExitCode;

use clap::Parser;
use node::process::runtime::Runtime;
use node::telemetry::TelemetryArgs;

#[derive(Parser, Debug)]
#[command(name = "noise-worker", version, about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    args: noise_worker::config::WorkerArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Mpi(Box<rustle_mpi::MpiArgs>),
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
    if let Some(Command::Mpi(args)) = cli.command {
        let _telemetry = cli.telemetry.init("rustle-worker")?;
        rustle_mpi::run(&args);
        return Ok(());
    }
    Runtime::new()?.block_on(async {
        let _telemetry = cli.telemetry.init("rustle-worker")?;
        noise_worker::run(cli.args, node::process::shutdown::token_on_signals()?).await
    })
}
