//! The gRPC server of a coordinator that stands by: it answers every call with the leader's address.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anyhow::Context as _;
use futures::Stream;
use futures::future::Either;
use node::security::ServerSecurity;
use node::telemetry::rpc_metrics::RpcMetricsLayer;
use node::telemetry::trace_propagation::TraceLayer;
use proto::ServiceError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::transport::server::Connected;
use tonic_health::ServingStatus;
use tower::{Layer, Service};

use super::server::methods;
use super::{Errors, error_to_status};
use crate::known_leader::KnownLeader;

const HEALTH: &str = "/grpc.health.v1.Health/";

/// Serves until shutdown. Callers are authenticated as they are by a leader.
pub async fn serve_standby<C>(
    leader: KnownLeader,
    connections: impl Stream<Item = std::io::Result<C>>,
    security: &ServerSecurity,
    shutdown: CancellationToken,
) -> anyhow::Result<()>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", ServingStatus::NotServing).await;
    let router = security
        .server()
        .layer(TraceLayer)
        .layer(RpcMetricsLayer::new(methods()))
        .layer(security.guard(proto::rpc::RPCS, Errors))
        .layer(StandbyLayer(leader))
        .add_service(health_service);
    let served = router.serve_with_incoming_shutdown(connections, shutdown.cancelled_owned());
    served.await.context("the gRPC server failed")
}

#[derive(Clone)]
struct StandbyLayer(KnownLeader);

impl<S> Layer<S> for StandbyLayer {
    type Service = Standby<S>;

    fn layer(&self, inner: S) -> Standby<S> {
        Standby { inner, leader: self.0.clone() }
    }
}

#[derive(Clone)]
struct Standby<S> {
    inner: S,
    leader: KnownLeader,
}

type ReadyAnswer<S> = Ready<Result<Response<Body>, <S as Service<Request<Body>>>::Error>>;

impl<S> Service<Request<Body>> for Standby<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<ReadyAnswer<S>, S::Future>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path().starts_with(HEALTH) {
            return Either::Right(self.inner.call(request));
        }
        let status =
            error_to_status(ServiceError::NotLeader { leader: self.leader.view().leader().to_owned() });
        Either::Left(ready(Ok(status.into_http())))
    }
}

/// One listener's connections, handed from one server to the next.
pub struct ListenerHandoff<S>(Arc<Mutex<S>>);

impl<S> ListenerHandoff<S> {
    /// Wraps the connections. Clones share them.
    pub fn new(connections: S) -> Self {
        Self(Arc::new(Mutex::new(connections)))
    }
}

impl<S> Clone for ListenerHandoff<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Stream + Unpin> Stream for ListenerHandoff<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *connections).poll_next(task)
    }
}
