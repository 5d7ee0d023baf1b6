//! The tasks that run beside the gRPC server, and how they end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::FutureExt;
use futures::future::BoxFuture;
use node::tls::Credentials;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::anchor_keeper::AnchorKeeper;
use crate::blocking::FatalStop;
use crate::coordinator::Coordinator;

/// The time that tasks may take to end at shutdown.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

/// Starts reconciliation, checkpointing and the comparison of watermarks, which run until shutdown.
pub fn spawn_background(coordinator: &Arc<Coordinator>, tasks: &TaskTracker, shutdown: &CancellationToken) {
    let stop = || coordinator.fatal_stop().clone();
    let placing = coordinator.clone().keep_reconciled(shutdown.clone()).boxed();
    let checkpointing = coordinator.clone().keep_checkpointing(shutdown.clone()).boxed();
    tasks.spawn(supervised(stop(), "placing", placing));
    let comparing = coordinator.clone().keep_watermarks_checked(shutdown.clone()).boxed();
    tasks.spawn(supervised(stop(), "checkpointing", checkpointing));
    tasks.spawn(supervised(stop(), "comparing watermarks", comparing));
}

/// Starts the renewal of the ledger's anchor, which runs until shutdown.
pub fn spawn_anchor_keeper(
    keeper: AnchorKeeper,
    coordinator: &Coordinator,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) {
    let keeping = keeper.keep(shutdown.clone()).boxed();
    tasks.spawn(supervised(coordinator.fatal_stop().clone(), "renewing the anchor", keeping));
}

/// Starts the privacy meter, which runs until shutdown. The coordinator works without it.
pub fn spawn_metering(coordinator: &Arc<Coordinator>, tasks: &TaskTracker, shutdown: &CancellationToken) {
    tasks.spawn(coordinator.clone().keep_metering(shutdown.clone()).boxed());
}

/// Starts the health monitor, which runs until shutdown. The coordinator works without it.
pub fn spawn_health_monitor(
    coordinator: &Arc<Coordinator>,
    credentials: Option<Credentials>,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) {
    tasks.spawn(coordinator.clone().keep_watching_health(credentials, shutdown.clone()).boxed());
}

/// Runs a task that the coordinator can't do without. If it panics, the process ends with a reason and its supervisor
/// starts another: a process that is ready but no longer places shards would go unnoticed.
async fn supervised(stop: FatalStop, name: &'static str, task: BoxFuture<'static, ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        stop.because(format!("{name} has panicked: a bug in the coordinator; the log has the message"));
    }
}

/// Returns the error of a coordinator that stopped by itself.
pub fn outcome(stop: &FatalStop) -> anyhow::Result<()> {
    match stop.reason() {
        Some(reason) => bail!("the coordinator stopped: {reason}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_ends_the_process_with_a_reason() {
        let shutdown = CancellationToken::new();
        let stop = FatalStop::new(shutdown.clone());
        supervised(stop.clone(), "placing", async {}.boxed()).await;
        assert!(stop.reason().is_none() && !shutdown.is_cancelled(), "ended as requested");
        supervised(stop.clone(), "placing", async { panic!("a fault") }.boxed()).await;
        assert!(stop.reason().unwrap().contains("placing has panicked") && shutdown.is_cancelled());
        assert!(outcome(&stop).is_err());
    }
}
