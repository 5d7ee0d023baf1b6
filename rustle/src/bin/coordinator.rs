//! `coordinator`: the same as `rustle coordinator`, as a binary of its own.

use std::process::ExitCode;

use clap::Parser;
use coordinator::{CoordinatorArgs, Options};
use node::runtime::Runtime;
use node::telemetry::TelemetryArgs;

/// As clap's own.
const BAD_USE: u8 = 2;

#[derive(Parser)]
#[command(name = "coordinator", version, about = "Rustle's coordinator")]
struct Cli {
    #[command(flatten)]
    args: CoordinatorArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
}

fn main() -> ExitCode {
    let Cli { args, telemetry } = Cli::parse();
    // Outlives what is said of its end: it waits for threads that block.
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(error.into(), 1),
    };
    let _telemetry = match telemetry.init("rustle-coordinator") {
        Ok(telemetry) => telemetry,
        Err(error) => return failed(error.into(), BAD_USE),
    };
    let options = match args.resolve() {
        Ok((options, _sources)) => options,
        Err(error) => return failed(error, BAD_USE),
    };
    match runtime.block_on(run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error, 1),
    }
}

async fn run(options: Options) -> anyhow::Result<()> {
    let config = options.bind().await?;
    coordinator::run(config, node::shutdown::token_on_signals()?).await
}

fn failed(error: anyhow::Error, code: u8) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}
