//! The worker: owns shards of the parameter vector under leases, makes their noise ahead of need, and serves slices of
//! rows that the coordinator has bound.
//!
//! A request goes `transport/grpc.rs` → [`service`] → [`shard`] (made ahead by [`make`]) or [`replay`] (drawn again).
//! Shards come and go by [`membership`] → [`leases`] → [`restore`].

// `mpi/window.rs` alone may have it (N-8).
#![cfg_attr(not(feature = "mpi"), forbid(unsafe_code))]

mod bf16;
mod clerk;
pub mod config;
mod connect;
mod delivery;
mod idle;
mod keyring;
mod leases;
mod make;
pub mod marks;
mod membership;
mod meter;
mod metric_definitions;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod recipe;
mod regions;
mod replay;
mod restore;
mod row;
mod service;
mod shard;
mod snapshot;
mod spans;
mod stores;
mod sync;
#[cfg(test)]
mod tests;
mod transport;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use futures::Stream;
use node::{
    auth::{Bearer, Identity, Role},
    cpu_pool::CpuPool,
    dial::Dialing,
    limits::Budget,
    listen::bind_loopback_checked,
    listener::{ListenAddress, Listener},
    local_socket::{LocalSocket, host_id},
    metrics_endpoint::{Extras, MetricsEndpoint},
    readiness::Readiness,
    ready_file::ReadyFile,
    security::Secured,
    tls::Credentials,
};
use noise_kernel::JobKey;
use proto::{
    Incarnation, WorkerId,
    model::{LocalAccess, WorkerPlace},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, server::Connected};

pub use metric_definitions::DEFINITIONS;

use crate::{
    config::WorkerArgs,
    keyring::Keyring,
    leases::{Leases, Limits},
    membership::{Leaving, Member},
    regions::Regions,
    service::NoiseService,
    transport::{lending, server},
};

/// How long streams under way may go on after shutdown began.
const DRAIN: Duration = Duration::from_secs(10);

/// Everything this worker listens on.
struct Listeners {
    main: Listener,
    unix: Option<Listener>,
    lending: Option<LocalSocket>,
}

impl Listeners {
    async fn bind(args: &WorkerArgs, security: &Secured) -> anyhow::Result<Self> {
        let unix = match &args.unix_socket {
            Some(path) => Some(ListenAddress::Unix(path.clone()).bind(false).await?),
            None => None,
        };
        let lending = args.shm_socket.as_deref().map(LocalSocket::bind).transpose()?;
        Ok(Self { main: args.listen.bind(security.may_leave_host()).await?, unix, lending })
    }

    fn local(&self) -> anyhow::Result<Option<LocalAccess>> {
        let endpoint = self.unix.as_ref().map(|unix| unix.endpoint(false)).transpose()?;
        let lending = self.lending.as_ref().map(|socket| socket.path().display().to_string());
        let is_reachable = endpoint.is_some() || lending.is_some();
        Ok(is_reachable.then(|| LocalAccess { host: host_id(), endpoint, lending }))
    }

    fn serve(
        self,
        service: &Arc<NoiseService>,
        regions: &Arc<Regions>,
        security: &Secured,
        ended: &CancellationToken,
    ) -> Vec<JoinHandle<()>> {
        let budget = Budget::new(security.limits.slice_bytes);
        let mut tasks: Vec<_> = [Some(self.main), self.unix]
            .into_iter()
            .flatten()
            .map(|listener| {
                let (security, budget) = (security.clone(), budget.clone());
                tokio::spawn(serve(listener, service.clone(), security, budget, ended.clone()))
            })
            .collect();
        tasks.extend(
            self.lending.map(|socket| tokio::spawn(lending::serve(socket, regions.clone(), ended.clone()))),
        );
        tasks
    }
}

/// Error: nobody would take the worker for the one that routes name.
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

/// Runs a worker until `shutdown`; then drains: has its shards taken over, leaves the cluster, lets streams end, stops.
pub async fn run(args: WorkerArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    let security = args.security()?.enforce(None)?;
    let bearer = args.token_file.as_deref().map(Bearer::from_file).transpose()?;
    let keyring = args.keyring().await?;
    let worker = args.worker_id()?;
    check_name(&worker, security.credentials.as_ref().map(Credentials::identity).as_ref())?;
    let backend = args.backend.resolve().context("choose the instruction set (--backend)")?;
    tracing::info!(asked = %args.backend, chosen = %backend, "instruction set");
    let pool = if args.pin_threads { CpuPool::pinned } else { CpuPool::new };
    let pool = pool(args.pool_threads()).context("start the CPU pool")?;
    let copying = CpuPool::named("copy", args.pool_threads()).context("start the copying threads")?;
    let recorder = node::recorder::install_recorder()?;
    metric_definitions::describe_metrics();
    node::build_info::record_build_info(env!("CARGO_PKG_VERSION"));
    let listeners = Listeners::bind(&args, &security).await?;
    let metrics_listener = bind_loopback_checked(args.metrics_listen, security.insecure).await?;
    let (address, metrics_address) =
        (listeners.main.endpoint(security.credentials.is_some())?, metrics_listener.local_addr()?);

    let marks = Arc::new(marks::Marks::open(args.state_dir.as_deref())?);
    let rate = meter::calibrate(&pool, backend, Duration::ZERO).await?.best;
    tracing::info!(bytes_per_second = rate, "measured");
    let leases = Leases::new(keyring, marks, Limits::new(pool, &args).measured(rate));
    let regions = Regions::new(copying, args.shm_bytes);
    let service = NoiseService::new(leases.clone(), regions.clone(), args.chunk_bytes);
    let readiness = Readiness::not_ready("not registered yet");
    let status_leases = leases.clone();
    let endpoint = MetricsEndpoint {
        recorder,
        readiness: readiness.clone(),
        status: Arc::new(move || status(&status_leases)),
        extras: Extras::default(),
    };
    let ended = CancellationToken::new();
    let metrics_server = tokio::spawn(endpoint.serve(metrics_listener, ended.clone()));
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
    let dialing = Dialing { bearer, ..security.into() };
    let client = connect::coordinators(&args.coordinator, dialing)?;
    let refused = CancellationToken::new();
    let refusing = tokio::spawn({
        let (service, refused) = (service.clone(), refused.clone());
        async move {
            refused.cancelled().await;
            service.drain();
        }
    });
    let leaving = Leaving { shutdown, deadline: args.drain_deadline, refusing: refused };
    let measuring = tokio::spawn(idle::keep_measured(leases.clone()));
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

/// Where a simulated worker is reached, and how it reaches others.
pub struct Over<I, D> {
    pub endpoint: String,
    pub accepting: I,
    pub dial: D,
}

/// As [`run`], over connections that are given, without metrics and local sockets: simulations.
pub async fn run_over<C, I, D>(
    args: &WorkerArgs,
    key: JobKey,
    over: Over<I, D>,
    shutdown: CancellationToken,
) -> anyhow::Result<()>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    I: Stream<Item = std::io::Result<C>> + Send + 'static,
    D: FnOnce(Endpoint) -> Channel,
{
    let keyring = Keyring::new(Some(key), None);
    let marks = Arc::new(marks::Marks::open(args.state_dir.as_deref())?);
    let leases = Leases::new(keyring, marks, Limits::new(CpuPool::new(args.pool_threads())?, args));
    let regions = Regions::new(CpuPool::new(args.pool_threads())?, args.shm_bytes);
    let service = NoiseService::new(leases.clone(), regions, args.chunk_bytes);
    let ended = CancellationToken::new();
    let Over { endpoint, accepting, dial } = over;
    let security = Secured::default();
    let budget = Budget::new(security.limits.slice_bytes);
    let (serving, until) = (service.clone(), ended.clone());
    let server =
        tokio::spawn(async move { server::serve(accepting, serving, &security, budget, until).await });
    let (incarnation, place) = (incarnation()?, WorkerPlace::default());
    let member = Member { worker: args.worker_id()?, incarnation, endpoint, local: None, place };
    let client = connect::over(&args.coordinator, dial)?;
    let readiness = Readiness::not_ready("not registered yet");
    let leaving = Leaving { shutdown, deadline: args.drain_deadline, refusing: CancellationToken::new() };
    let membership = membership::run(client, member, leases.clone(), readiness, leaving).await;
    service.drain();
    ended.cancel();
    let _late = tokio::time::timeout(DRAIN, server).await;
    leases.clear();
    membership.context("membership ended")
}

async fn serve(
    listener: Listener,
    service: Arc<NoiseService>,
    security: Secured,
    budget: Budget,
    ended: CancellationToken,
) {
    let served = server::serve(security.incoming(listener), service, &security, budget, ended).await;
    if let Err(error) = served {
        tracing::error!(%error, "a server ended");
    }
}

fn incarnation() -> anyhow::Result<Incarnation> {
    let mut bytes = [0; 16];
    node::entropy::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no random bytes: {error}"))?;
    Ok(Incarnation(bytes))
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
