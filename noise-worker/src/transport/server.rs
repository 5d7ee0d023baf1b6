//! The gRPC server over whatever a connection is made of.

use std::{sync::Arc, time::Duration};

use futures::Stream;
use proto::pb::shards_server::ShardsServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::Connected};

use super::{grpc::Shards, slices::Slices};
use crate::service::NoiseService;

const METHODS: [&str; 2] = ["/rustle.v1.Shards/FetchSlice", "/rustle.v1.Shards/Snapshot"];

const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// What this server reads at most; what it writes goes by the client's choice.
const FRAME_BYTES: u32 = 128 << 10;

/// Serves until `ended`, then lets streams under way end.
pub async fn serve<C>(
    connections: impl Stream<Item = std::io::Result<C>>,
    service: Arc<NoiseService>,
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
    Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(256)
        .layer(node::rpc_metrics::RpcMetricsLayer::new(METHODS))
        .layer(node::trace_propagation::TraceLayer)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(Slices::new(service))
        .serve_with_incoming_shutdown(connections, ended.cancelled_owned())
        .await
}
