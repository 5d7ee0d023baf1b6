//! `rustle coordinator` and `rustle worker`: the entry points of the two binaries, in this one.

use clap::Args;
use coordinator::config::CoordinatorArgs;
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
    child: ChildArgs,
}

impl CoordinatorCommand {
    pub fn run(self) -> anyhow::Result<()> {
        self.child.apply()?;
        runtime()?.block_on(async { coordinator::start(self.args, node::shutdown::token_on_signals()?).await })
    }
}

/// Own shards, make their rows, serve slices of them
#[derive(Args, Clone, Debug)]
pub struct WorkerCommand {
    #[command(flatten)]
    args: WorkerArgs,
    #[command(flatten)]
    child: ChildArgs,
}

impl WorkerCommand {
    pub fn run(self) -> anyhow::Result<()> {
        self.child.apply()?;
        runtime()?.block_on(async { noise_worker::run(self.args, node::shutdown::token_on_signals()?).await })
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    node::telemetry::init(node::telemetry::TelemetryConfig::default())?;
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
