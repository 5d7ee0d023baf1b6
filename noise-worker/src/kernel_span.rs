//! The kernel's part in a fetch's trace.

use node::telemetry::SPANS;
use tracing::{Span, trace_span};

/// To be entered by the thread that runs the kernel. None unless the work is for a call whose span is sent to a
/// collector: rows made ahead are nobody's.
pub fn kernel_span(how: &'static str, rows: u64, coordinates: u64) -> Span {
    if is_sent(&Span::current()) {
        trace_span!(target: SPANS, "kernel", how, rows, coordinates)
    } else {
        Span::none()
    }
}

pub fn is_sent(span: &Span) -> bool {
    span.metadata().is_some_and(|metadata| metadata.target() == SPANS)
}
