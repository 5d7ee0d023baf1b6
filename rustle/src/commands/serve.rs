//! `rustle coordinator` and `rustle worker`: the processes of a cluster.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Args, Subcommand};
use coordinator::CoordinatorArgs;
use node::net::dial::{self, DialError};
use node::process::runtime::Runtime;
use node::telemetry::TelemetryArgs;
use noise_worker::config::WorkerArgs;
use proto::WorkerId;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::{online, worker_list};
use crate::access::CoordinatorArg;
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;
use crate::settings_error::of_settings;
use crate::values;

/// The flags of a process that another process starts.
#[derive(Args, Clone, Debug)]
pub struct ChildArgs {
    /// Stop when the parent process ends
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

/// Run a coordinator, which assigns shards and binds rows
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
        Runtime::new()?.block_on(async {
            let (options, _) = self.args.resolve().map_err(of_settings)?;
            coordinator::run(options.bind().await?, node::process::shutdown::token_on_signals()?).await
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Run a worker, which generates and serves the rows of its shards
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct WorkerCommand {
    #[command(subcommand)]
    action: Option<WorkerAction>,
    #[command(flatten)]
    args: WorkerArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    #[command(flatten)]
    child: ChildArgs,
}

/// A command for a running worker.
#[derive(Subcommand, Clone, Debug)]
enum WorkerAction {
    /// Move a worker's shards to other workers while the job runs
    Drain(DrainArgs),
    /// List the workers that are here, and those that are not, with the reason
    List(CoordinatorArg),
}

#[derive(Args, Clone, Debug)]
struct DrainArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the worker
    #[arg(long)]
    worker: WorkerId,
    /// Cancel a drain: the worker may hold shards again
    #[arg(long)]
    cancel: bool,
    /// Maximum time to wait until the worker serves no shard; 0 for no wait
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = values::duration_or_zero)]
    wait: Duration,
}

impl DrainArgs {
    async fn run(self, format: Format) -> anyhow::Result<()> {
        let client = self.coordinator.client().await?;
        let began = Instant::now();
        let progress = Progress::spinner("draining");
        loop {
            let left = client.drain_worker(&self.worker, self.cancel).await?;
            progress.set_message(format!("{left} shards left on {}", self.worker));
            if left == 0 || self.cancel || self.wait.is_zero() {
                drop(progress);
                let answer =
                    Answer::new().with("worker", self.worker.to_string()).with("draining", !self.cancel);
                return answer.with("shards_left", left).print(format);
            }
            if began.elapsed() > self.wait {
                bail!(
                    "{} still serves {left} shards after {:?}; draining continues without this command",
                    self.worker,
                    self.wait
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl WorkerCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        match self.action {
            Some(WorkerAction::Drain(drain)) => {
                online::block_on(&drain.coordinator.clone(), drain.run(format))?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(WorkerAction::List(coordinator)) => {
                online::block_on(&coordinator, worker_list::run(&coordinator, format))?;
                return Ok(ExitCode::SUCCESS);
            }
            None => {}
        }
        // Before anything listens.
        for url in self.args.coordinator.split(',') {
            dial::endpoint(url.trim()).map_err(|DialError { endpoint, allowed }| {
                bad_use(format!("--coordinator (RUSTLE_COORDINATOR) is {endpoint:?}; allowed: {allowed}"))
            })?;
        }
        self.args.security().map_err(of_settings)?;
        self.child.apply()?;
        let _telemetry = self.telemetry.init("rustle-worker")?;
        Runtime::new()?.block_on(async {
            noise_worker::run(self.args, node::process::shutdown::token_on_signals()?).await
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
