//! The gRPC server, over any kind of connection.

use std::sync::Arc;

use futures::Stream;
use node::{admission::Budget, security::ServerSecurity};
use proto::pb::shards_server::{self, ShardsServer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::{error_mapping::Errors, grpc::Shards, slices::Slices};
use crate::service::NoiseService;

/// The HTTP/2 window of one stream in bytes: a chunk of the largest size fits.
const STREAM_WINDOW: u32 = 16 << 20;
/// The HTTP/2 window of one connection in bytes: four streams may be full.
const CONNECTION_WINDOW: u32 = 64 << 20;

/// Serves until `ended`, then lets open streams end.
pub async fn serve<C>(
    connections: impl Stream<Item = std::io::Result<C>>,
    service: Arc<NoiseService>,
    security: &ServerSecurity,
    budget: Budget,
    ended: CancellationToken,
) -> Result<(), tonic::transport::Error>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<ShardsServer<Shards>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .build_v1()
        .expect("the descriptors were encoded by our own build");
    security
        .server()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .layer(node::telemetry::rpc_metrics::RpcMetricsLayer::new(proto::rpc::paths_of(
            shards_server::SERVICE_NAME,
        )))
        .layer(node::telemetry::trace_propagation::TraceLayer)
        .layer(security.guard(proto::rpc::RPCS, Errors))
        .add_service(health_service)
        .add_service(reflection)
        .add_service(Slices::new(service, budget))
        .serve_with_incoming_shutdown(connections, ended.cancelled_owned())
        .await
}
