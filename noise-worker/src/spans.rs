//! The worker's part in a fetch's trace: rows that are waited for, and the kernel's work for them. No values.

use node::telemetry::SPANS;
use tracing::{Span, field::Empty, trace_span};

/// From when a row is asked for until it is at hand; of a row that is drawn again, until it is delivered. `how` is told
/// later: `ahead`, `waited` or `replayed`.
pub fn row_span(shard: u32, row: u64) -> Span {
    for_a_call(|| trace_span!(target: SPANS, "row", shard, row, how = Empty))
}

/// To be entered by the thread that runs the kernel.
pub fn kernel_span(how: &'static str, rows: u64, coordinates: u64) -> Span {
    for_a_call(|| trace_span!(target: SPANS, "kernel", how, rows, coordinates))
}

/// None unless the work is for a call whose span is sent to a collector: rows made ahead are nobody's.
fn for_a_call(span: impl FnOnce() -> Span) -> Span {
    if is_sent(&Span::current()) { span() } else { Span::none() }
}

pub fn is_sent(span: &Span) -> bool {
    span.metadata().is_some_and(|metadata| metadata.target() == SPANS)
}
