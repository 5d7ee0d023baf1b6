//! The gRPC server of a coordinator that stands by: whatever is asked, it says who leads.

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
use super::{Errors, refused};

const HEALTH: &str = "/grpc.health.v1.Health/";

/// URL of the coordinator that leads; empty while none is known.
#[derive(Clone, Debug, Default)]
pub struct Leader(Arc<Mutex<String>>);

impl Leader {
    pub fn set(&self, url: &str) {
        url.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves until shutdown. Callers are asked who they are as by a leader.
pub async fn serve_standby<C>(
    leader: Leader,
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
struct StandbyLayer(Leader);

impl<S> Layer<S> for StandbyLayer {
    type Service = Standby<S>;

    fn layer(&self, inner: S) -> Standby<S> {
        Standby { inner, leader: self.0.clone() }
    }
}

#[derive(Clone)]
struct Standby<S> {
    inner: S,
    leader: Leader,
}

type Answered<S> = Ready<Result<Response<Body>, <S as Service<Request<Body>>>::Error>>;

impl<S> Service<Request<Body>> for Standby<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Answered<S>, S::Future>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path().starts_with(HEALTH) {
            return Either::Right(self.inner.call(request));
        }
        let status = refused(ServiceError::NotLeader { leader: self.leader.get() });
        Either::Left(ready(Ok(status.into_http())))
    }
}

/// One listener's connections, for one server after another.
pub struct Door<S>(Arc<Mutex<S>>);

impl<S> Door<S> {
    pub fn new(connections: S) -> Self {
        Self(Arc::new(Mutex::new(connections)))
    }
}

impl<S> Clone for Door<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Stream + Unpin> Stream for Door<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *connections).poll_next(task)
    }
}
