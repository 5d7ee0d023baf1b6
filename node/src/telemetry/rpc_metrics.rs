//! Counts and times every gRPC call of a server, whichever way it ends.
//!
//! A call ends with the last frame of its response: for a stream, long after the handler returned. Where the
//! caller leaves first, or a `grpc-timeout` cuts the call short, the guard's drop records "cancelled".

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use metrics::{Gauge, SharedString, counter, gauge, histogram};
use tonic::body::Body;
use tonic::{Code, Status, codegen::Bytes};
use tower::{Layer, Service};

use crate::telemetry::metric_definitions::{RPC_DURATION, RPC_IN_FLIGHT, RPC_REQUESTS};

/// A layer that counts and times calls, for `tonic::transport::Server::builder().layer(…)`.
#[derive(Debug, Clone)]
pub struct RpcMetricsLayer {
    methods: Arc<HashSet<Arc<str>>>,
}

impl RpcMetricsLayer {
    /// `methods` are the paths that get a label of their own, as "/package.Service/Method". Any other path is
    /// "other": a caller must not be able to make labels by calling methods that do not exist.
    pub fn new(methods: impl IntoIterator<Item = impl Into<Arc<str>>>) -> RpcMetricsLayer {
        RpcMetricsLayer { methods: Arc::new(methods.into_iter().map(Into::into).collect()) }
    }
}

impl<S> Layer<S> for RpcMetricsLayer {
    type Service = RpcMetricsService<S>;

    fn layer(&self, inner: S) -> RpcMetricsService<S> {
        RpcMetricsService { inner, methods: self.methods.clone() }
    }
}

/// A service whose calls a [`RpcMetricsLayer`] counts and times.
#[derive(Debug, Clone)]
pub struct RpcMetricsService<S> {
    inner: S,
    methods: Arc<HashSet<Arc<str>>>,
}

impl<S, B> Service<Request<B>> for RpcMetricsService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let known = self.methods.get(request.uri().path());
        let mut call =
            Call::begin(known.map_or(SharedString::const_str("other"), |path| path.clone().into()));
        let handling = self.inner.call(request);
        Box::pin(async move {
            let response = handling.await.inspect_err(|_| call.end("unknown"))?;
            Ok(measure_to_the_end(response, call))
        })
    }
}

fn measure_to_the_end(response: Response<Body>, mut call: Call) -> Response<Body> {
    // An error is sent as headers alone; a success says so in its trailers.
    if response.headers().contains_key(Status::GRPC_STATUS) {
        call.end(code_in(response.headers()));
        return response;
    }
    if response.status() != StatusCode::OK || response.body().is_end_stream() {
        call.end("unknown");
        return response;
    }
    response.map(|body| Body::new(MeasuredBody { body, call }))
}

struct MeasuredBody {
    body: Body,
    call: Call,
}

impl http_body::Body for MeasuredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(task);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.call.end(code_in(trailers));
                }
            }
            Poll::Ready(Some(Err(status))) => self.call.end(code_label(status.code())),
            Poll::Ready(None) => self.call.end("unknown"),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One call in flight. It ends once: by its code, or by being dropped.
struct Call {
    method: SharedString,
    in_flight: Gauge,
    began: Instant,
    has_ended: bool,
}

impl Call {
    fn begin(method: SharedString) -> Call {
        let in_flight = gauge!(RPC_IN_FLIGHT, "method" => method.clone());
        in_flight.increment(1.0);
        Call { method, in_flight, began: Instant::now(), has_ended: false }
    }

    fn end(&mut self, code: &'static str) {
        if self.has_ended {
            return;
        }
        self.has_ended = true;
        self.in_flight.decrement(1.0);
        counter!(RPC_REQUESTS, "method" => self.method.clone(), "code" => code).increment(1);
        histogram!(RPC_DURATION, "method" => self.method.clone(), "code" => code)
            .record(self.began.elapsed());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(if std::thread::panicking() { "internal" } else { "cancelled" });
    }
}

fn code_in(headers: &HeaderMap) -> &'static str {
    headers.get(Status::GRPC_STATUS).map_or("unknown", |code| code_label(Code::from_bytes(code.as_bytes())))
}

fn code_label(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}
