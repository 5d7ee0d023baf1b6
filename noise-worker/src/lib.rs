//! The worker: owns shards of the parameter vector under leases, makes their noise ahead of need, and serves slices of
//! rows that the coordinator has bound.
//!
//! A request goes `transport/grpc.rs` → [`service`] → [`shard`] (made ahead by [`make`]) or [`replay`] (drawn again).
//! Shards come and go by [`membership`] → [`leases`] → [`restore`].

pub mod config;
mod connect;
mod keyring;
mod leases;
mod make;
mod membership;
mod metric_definitions;
pub mod recipe;
mod replay;
mod restore;
mod row;
mod service;
mod shard;
mod transport;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use node::{
    cpu_pool::CpuPool, listen::bind_loopback_checked, metrics_endpoint::MetricsEndpoint,
    readiness::Readiness, ready_file::ReadyFile,
};
use proto::{Incarnation, MAX_MESSAGE_BYTES, pb::shards_server::ShardsServer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};

use crate::{
    config::WorkerArgs,
    leases::{Leases, Limits},
    membership::Member,
    service::NoiseService,
    transport::grpc,
};

/// How long streams under way may go on after shutdown began.
const DRAIN: Duration = Duration::from_secs(10);

const METHODS: [&str; 2] = ["/rustle.v1.Shards/FetchSlice", "/rustle.v1.Shards/Snapshot"];

/// Runs a worker until `shutdown`; then drains: leaves the cluster, lets streams end, stops.
pub async fn run(args: WorkerArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    let keyring = args.keyring().await?;
    let worker = args.worker_id()?;
    let pool = CpuPool::new(args.pool_threads()).context("start the CPU pool")?;
    let recorder = node::recorder::install_recorder()?;
    metric_definitions::describe_metrics();
    node::metric_definitions::describe_metrics();
    node::build_info::record_build_info(env!("CARGO_PKG_VERSION"));
    let listener = bind_loopback_checked(args.listen, args.allow_public).await?;
    let metrics_listener = bind_loopback_checked(args.metrics_listen, args.allow_public).await?;
    let (address, metrics_address) = (listener.local_addr()?, metrics_listener.local_addr()?);

    let leases = Leases::new(keyring, Limits::new(pool, args.ahead_rows, args.ahead_bytes));
    let service = NoiseService::new(leases.clone());
    let readiness = Readiness::not_ready("not registered yet");
    let status_leases = leases.clone();
    let endpoint = MetricsEndpoint {
        recorder,
        readiness: readiness.clone(),
        status: Arc::new(move || status(&status_leases)),
    };
    let ended = CancellationToken::new();
    let metrics_server = tokio::spawn(endpoint.serve(metrics_listener, ended.clone()));
    let server = tokio::spawn(serve(listener, service.clone(), ended.clone()));
    if let Some(path) = &args.ready_file {
        ReadyFile::new(address, metrics_address).write(path)?;
    }
    tracing::info!(%worker, %address, %metrics_address, "worker listening");

    let member = Member {
        worker,
        incarnation: incarnation()?,
        endpoint: args.advertise.clone().unwrap_or_else(|| format!("http://{address}")),
    };
    let client = connect::coordinator(&args.coordinator)?;
    // New requests are refused from the moment that shutdown begins; membership tells the coordinator.
    let refusing = tokio::spawn({
        let (service, shutdown) = (service.clone(), shutdown.clone());
        async move {
            shutdown.cancelled().await;
            service.drain();
        }
    });
    let membership = membership::run(client, member, leases.clone(), readiness, shutdown.clone()).await;
    refusing.abort();
    service.drain();
    ended.cancel();
    if tokio::time::timeout(DRAIN, server).await.is_err() {
        tracing::warn!(deadline = ?DRAIN, "streams were still open; closing them");
    }
    leases.clear();
    metrics_server.abort();
    membership.context("membership ended")
}

async fn serve(
    listener: TcpListener,
    service: Arc<NoiseService>,
    ended: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<ShardsServer<grpc::Shards>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .build_v1()
        .expect("the descriptors were encoded by our own build");
    let shards = ShardsServer::new(grpc::Shards(service))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(64 << 20)
        .max_frame_size(128 << 10)
        .max_concurrent_streams(256)
        .layer(node::rpc_metrics::RpcMetricsLayer::new(METHODS))
        .layer(node::trace_propagation::TraceLayer)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(shards)
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            ended.cancelled_owned(),
        )
        .await
}

fn incarnation() -> anyhow::Result<Incarnation> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
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
