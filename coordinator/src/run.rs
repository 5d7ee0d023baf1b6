//! Start and end of a coordinator.

use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use anyhow::Context;
use client::Connections;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use ledger::{AnchorPlace, Ledger};
use metrics::gauge;
use node::process::readiness::Readiness;
use node::process::ready_file::ReadyFile;
use node::process::rng;
use node::process::shutdown::drain;
use node::security::ServerSecurity;
use node::telemetry::build_info::record_build_info;
use node::telemetry::live_page::Text;
use node::telemetry::metrics_endpoint::{Extras, MetricsEndpoint, StatusReport};
use node::telemetry::recorder::install_recorder;
use proto::JobId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;
use tracing::{info, warn};

use crate::anchor_keeper::{AnchorKeeper, AnchorStore};
use crate::background::{
    DRAIN_DEADLINE, outcome, spawn_anchor_keeper, spawn_background, spawn_health_monitor, spawn_metering,
};
use crate::blocking::FatalStop;
use crate::cluster::JobView;
use crate::config::CoordinatorConfig;
use crate::coordinator::Coordinator;
use crate::data_dir::ledger_file;
#[cfg(feature = "etcd")]
use crate::ledger_store::LedgerStore;
use crate::metric_definitions::{EPOCH, describe_metrics};
use crate::status_page;

/// Runs a coordinator until `shutdown` is cancelled. Fails if it can't start, or if the ledger can't be trusted any
/// more.
// Boxed, so that all of it is compiled here and not in every program that runs it.
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
    if let LedgerStore::Etcd(etcd) = config.store.clone() {
        return crate::leadership::run(config, etcd, connections, shutdown).await;
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
    let stop = FatalStop::new(shutdown.clone());
    let opening = stop.clone();
    let address = listener.endpoint(security.credentials.is_some())?;
    let metrics_address = metrics_listener.local_addr()?;
    // Served while the ledger is opened, which may have to wait for another process.
    let readiness = Readiness::not_ready("starting");
    let opened = Opened::default();
    let (status, extras) = status_sources(&opened);
    let endpoint = MetricsEndpoint { recorder, readiness: readiness.clone(), status, extras };
    let tasks = TaskTracker::new();
    let metrics_shutdown = CancellationToken::new();
    let _ends_with_a_failure_too = metrics_shutdown.clone().drop_guard();
    tasks.spawn(endpoint.serve(metrics_listener, metrics_shutdown.clone()).boxed());

    let folder = settings.data_dir.clone();
    let ledger = node::process::blocking::run(move || open_ledger(&folder)).await?.context("opening")?;
    let anchor = AnchorKeeper::begin(&ledger, &settings, &readiness, &shutdown).await;
    let anchor = anchor.context("checkpoint_url")?;
    if shutdown.is_cancelled() {
        return outcome(&stop);
    }
    let coordinator =
        node::process::blocking::run(move || Coordinator::open(ledger, settings, connections, opening));
    let coordinator = Arc::new(coordinator.await.context("opening")??);
    let _ = opened.set(Arc::downgrade(&coordinator));
    gauge!(EPOCH).set(coordinator.epoch() as f64);
    spawn_background(&coordinator, &tasks, &shutdown);
    spawn_metering(&coordinator, &tasks, &shutdown);
    spawn_health_monitor(&coordinator, security.credentials.clone(), &tasks, &shutdown);
    // The anchor is kept until no call binds any more.
    let no_more_calls = CancellationToken::new();
    if let Some(anchor) = anchor {
        spawn_anchor_keeper(anchor, &coordinator, &tasks, &no_more_calls);
    }

    readiness.set_ready();
    if let Some(path) = &ready_file {
        // The listener is bound: a connection made from now on is served.
        ReadyFile::new(address.clone(), metrics_address).write(path)?;
    }
    info!(%address, metrics = %metrics_address, epoch = coordinator.epoch(), "coordinator ready");
    let served = crate::grpc::serve(coordinator, listener, &security, shutdown.clone()).await;

    readiness.set_not_ready("shutting down");
    no_more_calls.cancel();
    metrics_shutdown.cancel();
    if let Err(late) = drain(&shutdown, &tasks, DRAIN_DEADLINE).await {
        warn!(%late, "ending before these tasks have");
    }
    if let Some(path) = &ready_file {
        ReadyFile::clear(path)?;
    }
    served?;
    outcome(&stop)
}

/// The coordinator, once it is open and until it has ended.
type Opened = Arc<OnceLock<Weak<Coordinator>>>;

/// A view into a coordinator for tests outside of this crate, which [`run_over`] hands out.
pub struct TestProbe(Weak<Coordinator>);

impl TestProbe {
    /// Returns the leases (job, shard, epoch) that the ledger has given to others and that are served until their
    /// successors are ready. Empty once the coordinator has ended.
    pub fn superseded_leases(&self) -> Vec<(JobId, u32, u64)> {
        let Some(coordinator) = self.0.upgrade() else { return Vec::new() };
        let cluster = coordinator.cluster();
        let leases = |view: &JobView| {
            let job = view.record.job.clone();
            view.superseded.iter().map(|it| (job.clone(), it.shard, it.epoch)).collect::<Vec<_>>()
        };
        cluster.jobs().flat_map(leases).collect()
    }
}

/// Runs a coordinator on a ledger and connections that the caller provides, without metrics, for simulations. The ledger's
/// anchor is kept in `anchors`, where there is that, and nowhere else. `shutdown` is cancelled too if the coordinator stops by
/// itself.
pub async fn run_over<C>(
    settings: crate::Settings,
    ledger: Ledger,
    anchors: Option<AnchorStore>,
    outgoing: Connections,
    incoming: impl Stream<Item = std::io::Result<C>>,
    shutdown: CancellationToken,
    with_probe: impl FnOnce(TestProbe),
) -> anyhow::Result<()>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let stop = FatalStop::new(shutdown.clone());
    let opening = stop.clone();
    let anchor = match anchors.filter(|_| ledger.copied().is_none()) {
        Some(anchors) => {
            let readiness = Readiness::not_ready("starting");
            let lease_ttl = settings.lease_ttl;
            Some(AnchorKeeper::begin_in(anchors, &ledger, lease_ttl, &readiness, &shutdown).await?)
        }
        None => None,
    };
    let coordinator =
        node::process::blocking::run(move || Coordinator::open(ledger, settings, outgoing, opening)).await;
    let coordinator = Arc::new(coordinator.context("opening")??);
    with_probe(TestProbe(Arc::downgrade(&coordinator)));
    let tasks = TaskTracker::new();
    spawn_background(&coordinator, &tasks, &shutdown);
    let no_more_calls = CancellationToken::new();
    if let Some(anchor) = anchor {
        spawn_anchor_keeper(anchor, &coordinator, &tasks, &no_more_calls);
    }
    let served =
        crate::grpc::serve_over(coordinator, incoming, &ServerSecurity::default(), shutdown.clone()).await;
    no_more_calls.cancel();
    served?;
    drain(&shutdown, &tasks, DRAIN_DEADLINE).await?;
    outcome(&stop)
}

/// Returns the sources of `/status`, the page and the jobs' metrics: null and empty while there is no coordinator.
fn status_sources(opened: &Opened) -> (StatusReport, Extras) {
    let watched = opened.clone();
    let status = move || {
        let coordinator = watched.get().and_then(Weak::upgrade);
        coordinator.map_or(serde_json::Value::Null, |coordinator| coordinator.status())
    };
    let extras = Extras {
        page: Some(status_page::live(text_of(opened, Coordinator::page))),
        series: Some(text_of(opened, Coordinator::series)),
        remarks: Some(text_of(opened, Coordinator::readiness_remarks)),
    };
    (Arc::new(status), extras)
}

fn text_of(opened: &Opened, text: fn(&Coordinator) -> String) -> Text {
    let watched = opened.clone();
    Arc::new(move || {
        watched.get().and_then(Weak::upgrade).map(|coordinator| text(&coordinator)).unwrap_or_default()
    })
}

fn open_ledger(folder: &Path) -> anyhow::Result<Ledger> {
    let path = ledger_file(folder);
    let ledger = Ledger::open(&path)?;
    ledger.take_up(&AnchorPlace::of_ledger(&path), rng::nonce()?)?;
    Ok(ledger)
}
