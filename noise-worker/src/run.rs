//! Starts and stops a worker.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use futures::{FutureExt, Stream, future::BoxFuture};
use node::{
    admission::Budget,
    auth::{Bearer, Identity, Role},
    net::dial::DialOptions,
    net::listen::bind_loopback_checked,
    net::local_socket::host_id,
    process::blocking,
    process::cpu_pool::CpuPool,
    process::readiness::Readiness,
    process::ready_file::ReadyFile,
    process::runtime::spawn,
    security::ServerSecurity,
    telemetry::metrics_endpoint::{Extras, MetricsEndpoint, StatusReport},
    tls::Credentials,
};
use noise_kernel::{Backend, JobKey};
use proto::{Incarnation, WorkerId, model::WorkerPlace};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, server::Connected};

use crate::{
    config::WorkerArgs,
    keyring::Keyring,
    leases::Leases,
    limits::Limits,
    membership::{self, DrainControl, Member, coordinator_client},
    metric_definitions,
    regions::Regions,
    release_log::ReleaseLog,
    row_check::check_every_core,
    service::NoiseService,
    throughput::{self, idle_benchmark},
    transport::{listeners::Listeners, server},
};

/// The time that open streams may continue after shutdown began.
const DRAIN: Duration = Duration::from_secs(10);

/// Fails if the certificate does not carry this worker's name: clients would reject it.
fn check_name(worker: &WorkerId, shown: Option<&Identity>) -> anyhow::Result<()> {
    let own = Role::Worker(worker.to_string());
    match shown {
        Some(Identity { role, .. }) if *role != own => {
            anyhow::bail!(
                "the certificate is {role}'s, and --name says {worker}; allowed: a certificate of {own}"
            )
        }
        _ => Ok(()),
    }
}

/// Runs a worker until `shutdown`; then drains it: others take its shards over, it deregisters, and open streams end.
///
/// The future is boxed, so that it is compiled here and not in every program that runs it.
pub fn run(args: WorkerArgs, shutdown: CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> {
    run_to_end(args, shutdown).boxed()
}

async fn run_to_end(args: WorkerArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    let record = args.record()?;
    let security = args.security()?.enforce(None)?;
    let bearer = args.token_file.as_deref().map(Bearer::from_file).transpose()?;
    let keyring = args.keyring().await?;
    let worker = args.worker_id()?;
    check_name(&worker, security.credentials.as_ref().map(Credentials::identity).as_ref())?;
    let (backend, pool, copying) = threads(&args)?;
    blocking::run(move || check_every_core(backend))
        .await?
        .context("make rows of known noise on every core")?;
    let recorder = node::telemetry::recorder::install_recorder()?;
    metric_definitions::describe_metrics();
    node::telemetry::build_info::record_build_info(env!("CARGO_PKG_VERSION"));
    let listeners = Listeners::bind(&args, &security).await?;
    let metrics_listener = bind_loopback_checked(args.metrics_listen, security.insecure).await?;
    let address = listeners.main.endpoint(security.credentials.is_some())?;
    let metrics_address = metrics_listener.local_addr()?;

    let dialing = DialOptions { bearer, ..security.clone().into() };
    let client = coordinator_client::coordinators(&args.coordinator, dialing)?;
    // All that is given was judged: from here on the worker has a record.
    let release_log = Arc::new(ReleaseLog::open(record)?);
    let rate = throughput::calibrate(&pool, backend, Duration::ZERO).await?.best;
    tracing::info!(bytes_per_second = rate, "measured");
    let leases = Leases::new(keyring, release_log, Limits::new(pool, &args)?.with_throughput(rate));
    let regions = Regions::new(copying, args.shm_bytes);
    let service = NoiseService::new(worker.clone(), leases.clone(), regions.clone(), args.chunk_bytes);
    let readiness = Readiness::not_ready("not registered yet");
    let ended = CancellationToken::new();
    let metrics = MetricsEndpoint {
        recorder,
        readiness: readiness.clone(),
        status: status_of(leases.clone()),
        extras: Extras::default(),
    };
    let metrics_server = spawn(metrics.serve(metrics_listener, ended.clone()));
    let local = listeners.local()?;
    let servers = listeners.serve(&service, &regions, &security, &ended);
    if let Some(path) = &args.ready_file {
        ReadyFile::new(address.clone(), metrics_address).write(path)?;
    }
    tracing::info!(%worker, %address, %metrics_address, ?local, "worker listening");

    let endpoint = args.advertise.clone().unwrap_or(address);
    let place =
        WorkerPlace { host: host_id(), labels: args.labels.clone(), memory_bytes: args.memory_bytes() };
    let member = Member { worker, incarnation: incarnation()?, endpoint, local, place };
    let refused = CancellationToken::new();
    let refusing = drain_once(refused.clone(), service.clone());
    let leaving = DrainControl { shutdown, deadline: args.drain_deadline, refusing: refused };
    let measuring = spawn(idle_benchmark::run_while_idle(leases.clone()));
    let membership = membership::run(client, member, leases.clone(), readiness, leaving).await;
    measuring.abort();
    refusing.abort();
    service.drain();
    ended.cancel();
    if tokio::time::timeout(DRAIN, futures::future::join_all(servers)).await.is_err() {
        tracing::warn!(deadline = ?DRAIN, "streams were still open; closing them");
    }
    leases.clear();
    metrics_server.abort();
    membership.context("membership ended")
}

/// Returns the instruction set, the threads that generate rows, and those that copy them.
fn threads(args: &WorkerArgs) -> anyhow::Result<(Backend, CpuPool, CpuPool)> {
    let backend = args.backend.resolve().context("choose the instruction set (--backend)")?;
    tracing::info!(asked = %args.backend, chosen = %backend, "instruction set");
    let pool = if args.pin_threads { CpuPool::pinned } else { CpuPool::new };
    let pool = pool(args.pool_threads()).context("start the CPU pool")?;
    let copying = CpuPool::named("copy", args.pool_threads()).context("start the copying threads")?;
    Ok((backend, pool, copying))
}

/// Refuses requests once `refused` is cancelled, which is before the worker deregisters.
fn drain_once(refused: CancellationToken, service: Arc<NoiseService>) -> JoinHandle<()> {
    spawn(async move {
        refused.cancelled().await;
        service.drain();
    })
}

/// The network of a simulated worker.
pub struct SimulatedNetwork<I, D> {
    /// The URL under which it registers.
    pub endpoint: String,
    /// The connections that arrive.
    pub incoming: I,
    /// Makes the connection to the coordinator.
    pub dial: D,
}

/// Runs a worker as [`run()`] does, over the connections of a simulation, without metrics and local sockets.
pub async fn run_on<C, I, D>(
    args: &WorkerArgs,
    key: JobKey,
    network: SimulatedNetwork<I, D>,
    shutdown: CancellationToken,
) -> anyhow::Result<()>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    I: Stream<Item = std::io::Result<C>> + Send + 'static,
    D: FnOnce(Endpoint) -> Channel,
{
    let keyring = Keyring::new(Some(key), None);
    let release_log = Arc::new(ReleaseLog::open(args.state_dir.as_deref())?);
    let leases = Leases::new(keyring, release_log, Limits::new(CpuPool::new(args.pool_threads())?, args)?);
    let regions = Regions::new(CpuPool::new(args.pool_threads())?, args.shm_bytes);
    let worker = args.worker_id()?;
    let service = NoiseService::new(worker.clone(), leases.clone(), regions, args.chunk_bytes);
    let ended = CancellationToken::new();
    let SimulatedNetwork { endpoint, incoming, dial } = network;
    let security = ServerSecurity::default();
    let budget = Budget::new(security.limits.slice_bytes);
    let serving = service.clone();
    let until = ended.clone();
    let server = spawn(async move { server::serve(incoming, serving, &security, budget, until).await });
    let incarnation = incarnation()?;
    let place = WorkerPlace::default();
    let member = Member { worker, incarnation, endpoint, local: None, place };
    let client = coordinator_client::over(&args.coordinator, dial)?;
    let readiness = Readiness::not_ready("not registered yet");
    let leaving =
        DrainControl { shutdown, deadline: args.drain_deadline, refusing: CancellationToken::new() };
    let membership = membership::run(client, member, leases.clone(), readiness, leaving).await;
    service.drain();
    ended.cancel();
    let _late = tokio::time::timeout(DRAIN, server).await;
    leases.clear();
    membership.context("membership ended")
}

fn incarnation() -> anyhow::Result<Incarnation> {
    let mut bytes = [0; 16];
    node::process::rng::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    Ok(Incarnation(bytes))
}

fn status_of(leases: Arc<Leases>) -> StatusReport {
    Arc::new(move || status(&leases))
}

fn status(leases: &Leases) -> serde_json::Value {
    let (state_bytes, ahead_bytes) = leases.memory();
    let shards: Vec<_> = leases
        .status()
        .iter()
        .map(|s| {
            serde_json::json!({
                "job": s.job, "shard": s.shard, "epoch": s.epoch, "state": s.state().as_str_name(),
                "next_row": s.next_row, "released": s.released, "message": s.message,
            })
        })
        .collect();
    serde_json::json!({ "state_bytes": state_bytes, "ahead_bytes": ahead_bytes, "shards": shards })
}
