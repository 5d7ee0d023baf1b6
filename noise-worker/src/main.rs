//! The worker's own binary: reads flags, starts, and drains on SIGTERM.

use std::process::ExitCode;

use clap::Parser;
use node::telemetry::TelemetryArgs;

#[derive(Parser, Debug)]
#[command(name = "noise-worker", version, about)]
struct Cli {
    #[command(flatten)]
    args: noise_worker::config::WorkerArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let started = async {
        let _telemetry = cli.telemetry.init("rustle-worker")?;
        noise_worker::run(cli.args, node::shutdown::token_on_signals()?).await
    };
    match started.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noise-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}
