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
use tracing::{Instrument, Span, field, info_span};

use crate::trace_context::TraceContext;

const TRACEPARENT: &str = "traceparent";

/// For `Client::with_interceptor`. A call made outside any trace begins one.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceInterceptor;

impl Interceptor for TraceInterceptor {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        let context = TraceContext::current().unwrap_or_else(TraceContext::root);
        // A traceparent is always valid metadata; were it not, the call is worth more than its trace.
        if let Ok(value) = MetadataValue::try_from(context.traceparent()) {
            request.metadata_mut().insert(TRACEPARENT, value);
        }
        Ok(request)
    }
}

/// For `tonic::transport::Server::builder().layer(…)`: runs each call, and the sending of its response
/// stream, in an `rpc` span and in the caller's trace, or in a new trace where the caller sent none.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceLayer;

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> TraceService<S> {
        TraceService { inner }
    }
}

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

fn open_span(method: &str, headers: &HeaderMap) -> (TraceContext, Span) {
    let parent = headers.get(TRACEPARENT).and_then(|value| TraceContext::parse(value.to_str().ok()?));
    let context = parent.map_or_else(TraceContext::root, TraceContext::child);
    let span = info_span!(
        "rpc",
        method,
        trace_id = context.trace_id(),
        span_id = context.span_id(),
        parent_span_id = field::Empty
    );
    if let Some(parent) = parent {
        span.record("parent_span_id", parent.span_id());
    }
    (context, span)
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

    /// A response stream whose only frame tells the trace that it was polled in.
    struct TellsItsTrace;

    impl http_body::Body for TellsItsTrace {
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
        let stream = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Body::new(TellsItsTrace))) };
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
