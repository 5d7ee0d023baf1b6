//! Start and end of a coordinator.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, bail};
use client::Connections;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use ledger::Ledger;
use metrics::gauge;
use node::process::readiness::Readiness;
use node::process::ready_file::ReadyFile;
use node::process::shutdown::drain;
use node::security::ServerSecurity;
use node::telemetry::build_info::record_build_info;
use node::telemetry::metrics_endpoint::{Extras, MetricsEndpoint, StatusReport, Text};
use node::telemetry::recorder::install_recorder;
use proto::JobId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;
use tracing::{info, warn};

use crate::blocking::Stop;
use crate::cluster::JobView;
use crate::config::CoordinatorConfig;
use crate::coordinator::Coordinator;
use crate::metric_definitions::{EPOCH, describe_metrics};
#[cfg(feature = "etcd")]
use crate::store::Store;

pub const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

/// Runs until `shutdown` is cancelled, or until the ledger can't be trusted any more, which is an error.
/// Behind a pointer, so that all of it is compiled here and not in every program that runs it.
pub fn run(config: CoordinatorConfig, shutdown: CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> {
    let connections = Connections::dialing(config.security.clone().into());
    run_to_end(config, connections, shutdown).boxed()
}

async fn run_to_end(
    config: CoordinatorConfig,
    connections: Connections,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    #[cfg(feature = "etcd")]
    if let Store::Etcd(etcd) = config.store.clone() {
        return crate::standing::run(config, etcd, connections, shutdown).await;
    }
    let CoordinatorConfig { settings, listener, metrics_listener, security, ready_file, .. } = config;
    let recorder = install_recorder()?;
    describe_metrics();
    record_build_info(env!("CARGO_PKG_VERSION"));
    if let Some(path) = &ready_file {
        ReadyFile::clear(path)?;
    }

    // A child, so that a ledger that fails ends this coordinator and nothing else in the process.
    let shutdown = shutdown.child_token();
    let stop = Stop::new(shutdown.clone());
    let opening = stop.clone();
    let coordinator = node::process::blocking::run(move || {
        Coordinator::open(open_ledger(&settings.data_dir)?, settings, connections, opening)
    });
    let coordinator = Arc::new(coordinator.await.context("opening")??);
    gauge!(EPOCH).set(coordinator.epoch as f64);
    let address = listener.endpoint(security.credentials.is_some())?;
    let metrics_address = metrics_listener.local_addr()?;

    let readiness = Readiness::not_ready("starting");
    let (status, extras) = shown(&coordinator);
    let endpoint = MetricsEndpoint { recorder, readiness: readiness.clone(), status, extras };
    let tasks = TaskTracker::new();
    let metrics_shutdown = CancellationToken::new();
    tasks.spawn(endpoint.serve(metrics_listener, metrics_shutdown.clone()).boxed());
    keep_going(&coordinator, &tasks, &shutdown);
    tasks.spawn(coordinator.clone().keep_watching(shutdown.clone()).boxed());

    readiness.set_ready();
    if let Some(path) = &ready_file {
        // The listener is bound: a connection made from now on is served.
        ReadyFile::new(address.clone(), metrics_address).write(path)?;
    }
    info!(%address, metrics = %metrics_address, epoch = coordinator.epoch, "coordinator ready");
    let served = crate::grpc::serve(coordinator, listener, &security, shutdown.clone()).await;

    readiness.set_not_ready("shutting down");
    metrics_shutdown.cancel();
    if let Err(late) = drain(&shutdown, &tasks, DRAIN_DEADLINE).await {
        warn!(%late, "ending without them");
    }
    if let Some(path) = &ready_file {
        ReadyFile::clear(path)?;
    }
    served?;
    ended(&stop)
}

/// For who looks on from outside at a coordinator of [`run_over`].
pub struct Onlooker(Weak<Coordinator>);

impl Onlooker {
    /// Leases (job, shard, epoch) that the ledger has given to others, and that are served until those are ready.
    pub fn retiring(&self) -> Vec<(JobId, u32, u64)> {
        let Some(coordinator) = self.0.upgrade() else { return Vec::new() };
        let cluster = coordinator.cluster();
        let of = |view: &JobView| {
            let job = view.record.job.clone();
            view.retiring.iter().map(|it| (job.clone(), it.shard, it.epoch)).collect::<Vec<_>>()
        };
        cluster.jobs().flat_map(of).collect()
    }
}

/// As [`run`], on a ledger and connections that are given, without metrics: simulations. `shutdown` is cancelled too
/// where the coordinator stops by itself.
pub async fn run_over<C>(
    settings: crate::Settings,
    ledger: Ledger,
    reaching: Connections,
    accepting: impl Stream<Item = std::io::Result<C>>,
    shutdown: CancellationToken,
    looked_at: impl FnOnce(Onlooker),
) -> anyhow::Result<()>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let stop = Stop::new(shutdown.clone());
    let opening = stop.clone();
    let coordinator =
        node::process::blocking::run(move || Coordinator::open(ledger, settings, reaching, opening)).await;
    let coordinator = Arc::new(coordinator.context("opening")??);
    looked_at(Onlooker(Arc::downgrade(&coordinator)));
    let tasks = TaskTracker::new();
    keep_going(&coordinator, &tasks, &shutdown);
    crate::grpc::serve_over(coordinator, accepting, &ServerSecurity::default(), shutdown.clone()).await?;
    drain(&shutdown, &tasks, DRAIN_DEADLINE).await?;
    ended(&stop)
}

pub fn keep_going(coordinator: &Arc<Coordinator>, tasks: &TaskTracker, shutdown: &CancellationToken) {
    let stop = || coordinator.stop.clone();
    let placing = coordinator.clone().keep_reconciled(shutdown.clone()).boxed();
    let checkpointing = coordinator.clone().keep_checkpointing(shutdown.clone()).boxed();
    tasks.spawn(lasting(stop(), "placing", placing));
    tasks.spawn(lasting(stop(), "checkpointing", checkpointing));
}

/// A task that the coordinator is nothing without: where it panics, the process ends and says so, and its supervisor
/// starts another. Placing that has stopped in a process that is ready otherwise would be noticed by nobody.
async fn lasting(stop: Stop, doing: &'static str, task: BoxFuture<'static, ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        stop.because(format!("{doing} has panicked: a fault of the coordinator's, told above"));
    }
}

fn ended(stop: &Stop) -> anyhow::Result<()> {
    match stop.reason() {
        Some(reason) => bail!("the coordinator stopped: {reason}"),
        None => Ok(()),
    }
}

/// Null and empty once the coordinator is gone.
fn shown(coordinator: &Arc<Coordinator>) -> (StatusReport, Extras) {
    let watched = Arc::downgrade(coordinator);
    let status =
        move || watched.upgrade().map_or(serde_json::Value::Null, |coordinator| coordinator.status());
    let extras = Extras {
        page: Some(text_of(coordinator, Coordinator::page)),
        series: Some(text_of(coordinator, Coordinator::job_series)),
    };
    (Arc::new(status), extras)
}

fn text_of(coordinator: &Arc<Coordinator>, text: fn(&Coordinator) -> String) -> Text {
    let watched = Arc::downgrade(coordinator);
    Arc::new(move || watched.upgrade().map(|coordinator| text(&coordinator)).unwrap_or_default())
}

/// What was bound to what is nobody else's to read.
pub fn create_data_dir(folder: &Path) -> anyhow::Result<()> {
    let folder_error = || format!("data folder {}", folder.display());
    ledger::create_private_folder(folder).with_context(folder_error)
}

fn open_ledger(folder: &Path) -> anyhow::Result<Ledger> {
    create_data_dir(folder)?;
    Ok(Ledger::open(&folder.join("ledger.redb"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_ends_the_process_with_a_reason() {
        let shutdown = CancellationToken::new();
        let stop = Stop::new(shutdown.clone());
        lasting(stop.clone(), "placing", async {}.boxed()).await;
        assert!(stop.reason().is_none() && !shutdown.is_cancelled(), "ended as told to");
        lasting(stop.clone(), "placing", async { panic!("a fault") }.boxed()).await;
        assert!(stop.reason().unwrap().contains("placing has panicked") && shutdown.is_cancelled());
        assert!(ended(&stop).is_err());
    }
}
