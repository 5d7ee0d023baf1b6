//! The `coordinator` binary: `rustle coordinator` as a program of its own.

use std::process::ExitCode;

use clap::Parser;
use coordinator::{CoordinatorArgs, Options};
use node::process::runtime::Runtime;
use node::telemetry::TelemetryArgs;

/// The exit code for wrong flags or settings, which is clap's own.
const USAGE_ERROR: u8 = 2;

#[derive(Parser)]
#[command(name = "coordinator", version, about = "Run a coordinator, which assigns shards and binds rows")]
struct Cli {
    #[command(flatten)]
    args: CoordinatorArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
}

fn main() -> ExitCode {
    let Cli { args, telemetry } = Cli::parse();
    // Dropped after the error is printed, because dropping it waits for blocking threads.
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(error.into(), 1),
    };
    let _telemetry = match telemetry.init("rustle-coordinator") {
        Ok(telemetry) => telemetry,
        Err(error) => return failed(error.into(), USAGE_ERROR),
    };
    let options = match args.resolve() {
        Ok((options, _sources)) => options,
        Err(error) => return failed(error, USAGE_ERROR),
    };
    match runtime.block_on(run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error, 1),
    }
}

async fn run(options: Options) -> anyhow::Result<()> {
    let config = options.bind().await?;
    coordinator::run(config, node::process::shutdown::token_on_signals()?).await
}

fn failed(error: anyhow::Error, code: u8) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}
