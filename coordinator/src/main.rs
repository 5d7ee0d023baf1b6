//! `coordinator`: the same as `rustle coordinator`, as a binary of its own.

use clap::Parser;
use coordinator::CoordinatorArgs;
use node::telemetry::{Format, TelemetryConfig};

#[derive(Parser)]
#[command(name = "coordinator", version, about = "Rustle's coordinator")]
struct Cli {
    #[command(flatten)]
    args: CoordinatorArgs,
    /// text or json
    #[arg(long, default_value = "text")]
    log_format: Format,
    /// What to log, as in RUST_LOG
    #[arg(long, default_value = "info")]
    log_filter: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Cli { args, log_format, log_filter } = Cli::parse();
    node::telemetry::init(TelemetryConfig { format: log_format, filter: log_filter })?;
    let (options, _sources) = args.resolve()?;
    let config = options.bind().await?;
    coordinator::run(config, node::shutdown::token_on_signals()?).await
}
