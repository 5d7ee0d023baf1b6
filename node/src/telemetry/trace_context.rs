//! The trace that the running task belongs to, and its W3C `traceparent` form.
//!
//! The context is task-local, so whatever a handler awaits sees it. A task that it spawns does not, unless
//! the future is wrapped in [`carry`].

use std::fmt;

use futures::FutureExt;
use futures::future::BoxFuture;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tokio::task_local;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

task_local! {
    static CURRENT: TraceContext;
}

/// The target of spans that are sent to a collector. They have the level TRACE, which no log shows by default: without
/// a collector none is made.
pub const SPANS: &str = "rustle::spans";

/// The flag "sampled" of a `traceparent`.
const SAMPLED: u8 = 1;

/// A trace, and the span of it that is running here. Neither id is all zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
}

impl TraceContext {
    /// Returns a new trace.
    pub fn root() -> TraceContext {
        TraceContext { trace_id: random_id(), span_id: random_id(), flags: SAMPLED }
    }

    /// Returns a new span of the same trace.
    pub fn child(self) -> TraceContext {
        TraceContext { span_id: random_id(), ..self }
    }

    /// Returns a new trace that is not sent to a collector, unless it samples by rules of its own.
    pub fn unsampled() -> TraceContext {
        TraceContext { flags: 0, ..TraceContext::root() }
    }

    /// Returns the context of a span that has not been entered yet, below `parent` or at the head of a trace. A span that is sent to a
    /// collector has there the ids that logs and other processes see.
    pub fn of(span: &Span, parent: Option<TraceContext>) -> TraceContext {
        let sent = if span.is_disabled() { None } else { sent(span, parent) };
        sent.unwrap_or_else(|| parent.map_or_else(TraceContext::root, TraceContext::child))
    }

    /// Returns the running task's trace, if it has one.
    pub fn current() -> Option<TraceContext> {
        CURRENT.try_with(|context| *context).ok()
    }

    /// Runs `future` in this context.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    /// Runs `function` in this context.
    pub fn sync_scope<T>(self, function: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, function)
    }

    /// Parses a `traceparent`. Returns `None` for what the W3C recommendation requires receivers to ignore: a bad form, or an
    /// id of zeros. A later version than 00 may add fields behind the four that are known.
    pub fn parse(traceparent: &str) -> Option<TraceContext> {
        let mut fields = traceparent.split('-');
        let version: [u8; 1] = parse_hex(fields.next()?)?;
        let trace_id: [u8; 16] = parse_hex(fields.next()?)?;
        let span_id: [u8; 8] = parse_hex(fields.next()?)?;
        let [flags] = parse_hex(fields.next()?)?;
        let too_many = version == [0] && fields.next().is_some();
        if version == [0xff] || too_many || trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        // Of the flags only "sampled" has a meaning to pass on.
        Some(TraceContext { trace_id, span_id, flags: flags & SAMPLED })
    }

    /// Returns the W3C `traceparent` of this context.
    pub fn traceparent(self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id(), self.span_id(), self.flags)
    }

    /// Returns the id of the trace, in hexadecimal.
    pub fn trace_id(self) -> String {
        hex::encode(self.trace_id)
    }

    /// Returns the id of the span, in hexadecimal.
    pub fn span_id(self) -> String {
        hex::encode(self.span_id)
    }
}

/// Returns the context of a span that is sent to a collector; `None` for one that is not.
fn sent(span: &Span, parent: Option<TraceContext>) -> Option<TraceContext> {
    if let Some(TraceContext { trace_id, span_id, flags }) = parent {
        let trace = TraceId::from_bytes(trace_id);
        let span_id = SpanId::from_bytes(span_id);
        let remote = SpanContext::new(trace, span_id, TraceFlags::new(flags), true, TraceState::default());
        // An error here says that nothing is sent.
        let _not_sent = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
    }
    let context = span.context();
    let own = context.span().span_context().clone();
    own.is_valid().then(|| TraceContext {
        trace_id: own.trace_id().to_bytes(),
        span_id: own.span_id().to_bytes(),
        flags: own.trace_flags().to_u8() & SAMPLED,
    })
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.traceparent())
    }
}

/// Wraps a future that is about to be spawned, so that it stays in the current span and trace.
pub fn carry<'a, T: 'a>(future: impl Future<Output = T> + Send + 'a) -> impl Future<Output = T> + Send + 'a {
    within(TraceContext::current(), future.boxed()).in_current_span()
}

async fn within<T>(context: Option<TraceContext>, future: BoxFuture<'_, T>) -> T {
    match context {
        Some(context) => context.scope(future).await,
        None => future.await,
    }
}

/// Exactly `N` bytes in lower-case hexadecimal.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

/// Never all zeros. A host without random bytes gets the id 1: traces run together there, and nothing else
/// suffers.
fn random_id<const N: usize>() -> [u8; N] {
    let mut id = [0; N];
    if crate::process::rng::fill(&mut id).is_err() || id == [0; N] {
        id = [0; N];
        id[N - 1] = 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_reads_back_as_written() {
        assert_eq!(TraceContext::parse(EXAMPLE).unwrap().traceparent(), EXAMPLE);
        let root = TraceContext::root();
        assert_eq!(TraceContext::parse(&root.traceparent()), Some(root));
    }

    #[test]
    fn what_must_be_ignored_is() {
        let bad = [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        ];
        for text in bad {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
        assert!(
            TraceContext::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some()
        );
    }

    #[test]
    fn a_child_keeps_the_trace_and_has_its_own_span() {
        let root = TraceContext::root();
        assert_eq!(root.child().trace_id(), root.trace_id());
        assert_ne!(root.child().span_id(), root.span_id());
        assert_ne!(TraceContext::root().trace_id(), root.trace_id());
    }

    #[tokio::test]
    async fn spawned_tasks_stay_in_the_trace_only_when_carried() {
        let root = TraceContext::root();
        let (carried, bare) = root
            .scope(async {
                let carried = tokio::spawn(carry(async { TraceContext::current() }));
                let bare = tokio::spawn(async { TraceContext::current() });
                (carried.await.unwrap(), bare.await.unwrap())
            })
            .await;
        assert_eq!((carried, bare), (Some(root), None));
    }
}
