//! Carries the trace context over gRPC: the client writes `traceparent`, the server reads it and opens a
//! span.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::{Status, codegen::Bytes};
use tower::{Layer, Service};
use tracing::{Instrument, Span, field, info_span, trace_span};

use crate::telemetry::trace_context::{SPANS, TraceContext};

const TRACEPARENT: &str = "traceparent";

/// An interceptor that sends the trace, for `Client::with_interceptor`. A call made outside any trace begins one, which is in logs alone: heartbeats would
/// drown what a collector is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceInterceptor;

impl Interceptor for TraceInterceptor {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        let context = TraceContext::current().unwrap_or_else(TraceContext::unsampled);
        // A traceparent is always valid metadata; were it not, the call is worth more than its trace.
        if let Ok(value) = MetadataValue::try_from(context.traceparent()) {
            request.metadata_mut().insert(TRACEPARENT, value);
        }
        Ok(request)
    }
}

/// A layer for `tonic::transport::Server::builder().layer(…)`: it runs each call, and the sending of its response
/// stream, in an `rpc` span and in the caller's trace, or in a new trace where the caller sent none.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceLayer;

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> TraceService<S> {
        TraceService { inner }
    }
}

/// A service whose calls run in the traces of their callers.
#[derive(Debug, Clone)]
pub struct TraceService<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for TraceService<S>
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
        let (context, span) = open_span(request.uri().path(), request.headers());
        let handling = context.sync_scope(|| span.in_scope(|| self.inner.call(request)));
        Box::pin(async move {
            let response = context.scope(handling.instrument(span.clone())).await?;
            Ok(response.map(|body| Body::new(TracedBody { body, context, span })))
        })
    }
}

/// The span to run the call in. Where spans are sent, it is the one that is, and the one for logs lies around it.
fn open_span(method: &str, headers: &HeaderMap) -> (TraceContext, Span) {
    let parent = headers.get(TRACEPARENT).and_then(|value| TraceContext::parse(value.to_str().ok()?));
    let logged = info_span!(
        "rpc",
        method,
        trace_id = field::Empty,
        span_id = field::Empty,
        parent_span_id = field::Empty
    );
    let sent = trace_span!(target: SPANS, parent: &logged, "rpc", otel.name = method, otel.kind = "server");
    let context = TraceContext::of(&sent, parent);
    logged.record("trace_id", context.trace_id());
    logged.record("span_id", context.span_id());
    if let Some(parent) = parent {
        logged.record("parent_span_id", parent.span_id());
    }
    (context, if sent.is_disabled() { logged } else { sent })
}

/// A response stream runs after its handler has returned: whatever it calls while it is polled is in the
/// trace too.
struct TracedBody {
    body: Body,
    context: TraceContext,
    span: Span,
}

impl http_body::Body for TracedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let TracedBody { body, context, span } = &mut *self;
        context.sync_scope(|| span.in_scope(|| Pin::new(body).poll_frame(task)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body::Body as _;

    use super::*;

    /// Answers with the traceparent that a client call from inside the handler would send.
    async fn nested_call(_: Request<()>) -> Result<Response<Body>, Infallible> {
        let nested = TraceInterceptor.call(tonic::Request::new(())).unwrap();
        let traceparent = nested.metadata().get(TRACEPARENT).unwrap().to_str().unwrap().to_owned();
        Ok(Response::builder().header(TRACEPARENT, traceparent).body(Body::empty()).unwrap())
    }

    async fn serve(traceparent: Option<String>) -> TraceContext {
        let mut request = Request::builder().uri("/rustle.v1.Worker/Generate");
        if let Some(traceparent) = traceparent {
            request = request.header(TRACEPARENT, traceparent);
        }
        let mut service = TraceLayer.layer(tower::service_fn(nested_call));
        let response = service.call(request.body(()).unwrap()).await.unwrap();
        TraceContext::parse(response.headers()[TRACEPARENT].to_str().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_nested_call_continues_the_callers_trace_from_a_new_span() {
        let caller = TraceContext::root();
        let nested = serve(Some(caller.traceparent())).await;
        assert_eq!(nested.trace_id(), caller.trace_id());
        assert_ne!(nested.span_id(), caller.span_id());
    }

    /// A response stream whose only frame names the trace that it was polled in.
    struct NamesItsTrace;

    impl http_body::Body for NamesItsTrace {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let trace_id = TraceContext::current().map(TraceContext::trace_id).unwrap_or_default();
            Poll::Ready(Some(Ok(Frame::data(trace_id.into()))))
        }
    }

    #[tokio::test]
    async fn a_response_stream_is_polled_in_the_trace_of_its_call() {
        let caller = TraceContext::root();
        let stream = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Body::new(NamesItsTrace))) };
        let request = Request::builder().header(TRACEPARENT, caller.traceparent()).body(()).unwrap();
        let mut response = TraceLayer.layer(tower::service_fn(stream)).call(request).await.unwrap();
        let frame = std::future::poll_fn(|task| Pin::new(response.body_mut()).poll_frame(task)).await;
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), caller.trace_id());
    }

    #[tokio::test]
    async fn a_call_with_no_trace_or_a_bad_one_begins_one() {
        assert_ne!(serve(None).await.trace_id(), serve(Some("nonsense".to_owned())).await.trace_id());
    }
}
