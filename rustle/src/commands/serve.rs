//! `rustle coordinator` and `rustle worker`: the entry points of the two binaries, in this one.

use std::process::ExitCode;

use clap::Args;
use coordinator::CoordinatorArgs;
use node::telemetry::TelemetryArgs;
use noise_worker::config::WorkerArgs;
use rustix::process::{Signal, set_parent_process_death_signal};

/// Flags of a process that a launcher starts.
#[derive(Args, Clone, Debug)]
pub struct ChildArgs {
    /// Stop when the process that started this one is gone
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

impl ChildArgs {
    fn apply(&self) -> anyhow::Result<()> {
        if self.exit_with_parent {
            set_parent_process_death_signal(Some(Signal::TERM))?;
        }
        Ok(())
    }
}

/// Assign shards, bind rows, keep the ledger
#[derive(Args, Clone, Debug)]
pub struct CoordinatorCommand {
    #[command(flatten)]
    args: CoordinatorArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    #[command(flatten)]
    child: ChildArgs,
}

impl CoordinatorCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.child.apply()?;
        let _telemetry = self.telemetry.init("rustle-coordinator")?;
        runtime()?.block_on(async {
            let (options, _) = self.args.resolve()?;
            coordinator::run(options.bind().await?, node::shutdown::token_on_signals()?).await
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Own shards, make their rows, serve slices of them
#[derive(Args, Clone, Debug)]
pub struct WorkerCommand {
    #[command(flatten)]
    args: WorkerArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    #[command(flatten)]
    child: ChildArgs,
}

impl WorkerCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.child.apply()?;
        let _telemetry = self.telemetry.init("rustle-worker")?;
        runtime()?
            .block_on(async { noise_worker::run(self.args, node::shutdown::token_on_signals()?).await })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
