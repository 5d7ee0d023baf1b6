//! The worker's spans in the trace of a fetch: the rows it waits for, and the kernel's work for them. No values.

use node::telemetry::SPANS;
use tracing::{Span, field::Empty, trace_span};

/// Returns the span of a row from its request until it is available, or delivered where it is replayed. `how` is recorded
/// later: `ahead`, `waited` or `replayed`.
pub fn row_span(shard: u32, row: u64) -> Span {
    if_traced(|| trace_span!(target: SPANS, "row", shard, row, how = Empty))
}

/// Returns the span of a kernel call, to be entered by the thread that runs it.
pub fn kernel_span(how: &'static str, rows: u64, coordinates: u64) -> Span {
    if_traced(|| trace_span!(target: SPANS, "kernel", how, rows, coordinates))
}

/// Returns no span unless the work is for a call whose span is exported: rows generated ahead are for none.
fn if_traced(span: impl FnOnce() -> Span) -> Span {
    if is_sent(&Span::current()) { span() } else { Span::none() }
}

/// Returns whether the span is exported to a collector.
pub fn is_sent(span: &Span) -> bool {
    span.metadata().is_some_and(|metadata| metadata.target() == SPANS)
}
