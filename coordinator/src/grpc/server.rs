//! The gRPC server: our four services, health and reflection.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::{Stream, StreamExt};
use node::net::abort_on_close::AbortOnClose;
use node::net::listener::Listener;
use node::security::ServerSecurity;
use node::telemetry::rpc_metrics::RpcMetricsLayer;
use node::telemetry::trace_propagation::TraceLayer;
use proto::pb::{
    budgets_server::{self, BudgetsServer},
    jobs_server::{self, JobsServer},
    noise_server::{self, NoiseServer},
    workers_server::{self, WorkersServer},
};
use proto::{DESCRIPTORS, MAX_GRANTS_BYTES, MAX_MESSAGE_BYTES};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::Errors;
use super::budgets::BudgetsService;
use super::jobs::JobsService;
use super::noise::NoiseService;
use super::workers::WorkersService;
use crate::coordinator::Coordinator;

/// The time that calls under way may take to end at shutdown. Health watches, which never end, and remaining calls are then
/// cut.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// Serves on a listener until shutdown.
pub async fn serve(
    coordinator: Arc<Coordinator>,
    listener: Listener,
    security: &ServerSecurity,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    serve_over(coordinator, security.incoming(listener), security, shutdown).await
}

/// Serves on these connections until shutdown. The ledger is open, so every service is SERVING from the first call.
pub async fn serve_over<C>(
    coordinator: Arc<Coordinator>,
    connections: impl Stream<Item = std::io::Result<C>>,
    security: &ServerSecurity,
    shutdown: CancellationToken,
) -> anyhow::Result<()>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<JobsServer<JobsService>>().await;
    health.set_serving::<NoiseServer<NoiseService>>().await;
    health.set_serving::<WorkersServer<WorkersService>>().await;
    health.set_serving::<BudgetsServer<BudgetsService>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .build_v1()
        .context("reflection")?;

    let jobs = JobsServer::new(JobsService(coordinator.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let noise = NoiseServer::new(NoiseService(coordinator.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let budgets = BudgetsServer::new(BudgetsService(coordinator.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let workers = WorkersServer::new(WorkersService(coordinator))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_GRANTS_BYTES);

    let closing = shutdown.clone();
    let until_closing = async move {
        closing.cancelled().await;
        // Watches are answered before their connection is closed.
        health.set_not_serving::<JobsServer<JobsService>>().await;
        health.set_not_serving::<NoiseServer<NoiseService>>().await;
        health.set_not_serving::<WorkersServer<WorkersService>>().await;
        health.set_not_serving::<BudgetsServer<BudgetsService>>().await;
    };
    let router = security
        .server()
        .layer(TraceLayer)
        .layer(RpcMetricsLayer::new(methods()))
        .layer(security.guard(proto::rpc::RPCS, Errors))
        .add_service(health_service)
        .add_service(reflection)
        .add_service(jobs)
        .add_service(noise)
        .add_service(workers)
        .add_service(budgets);
    // A former leader must release its ledger even while health watches are still open.
    let ended = CancellationToken::new();
    let _close_all = ended.clone().drop_guard();
    let connections =
        connections.map(move |accepted| accepted.map(|accepted| AbortOnClose::new(accepted, ended.clone())));
    let server = router.serve_with_incoming_shutdown(connections, until_closing);
    let too_late = async {
        shutdown.cancelled().await;
        tokio::time::sleep(SHUTDOWN_DEADLINE).await;
    };
    tokio::select! {
        biased;
        served = server => served.context("the gRPC server failed"),
        () = too_late => Ok(()),
    }
}

/// Returns the methods that metrics name; any other is "other".
pub fn methods() -> Vec<&'static str> {
    [
        jobs_server::SERVICE_NAME,
        noise_server::SERVICE_NAME,
        workers_server::SERVICE_NAME,
        budgets_server::SERVICE_NAME,
    ]
    .into_iter()
    .flat_map(proto::rpc::paths_of)
    .collect()
}
