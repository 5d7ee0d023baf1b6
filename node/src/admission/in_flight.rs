//! The room that a call in flight takes.

use std::sync::Arc;

use super::{CallPermit, MessagePermit};

/// The room that one call takes: its place among calls and its message's bytes. Both are free again once every clone
/// is dropped.
#[derive(Clone)]
pub struct InFlight {
    _call: Arc<CallPermit>,
    _message: MessagePermit,
}

tokio::task_local! {
    static IN_FLIGHT: InFlight;
}

/// Returns the room of the call that this task handles; `None` outside of a call.
///
/// Work that continues after its caller has left must hold it: otherwise a caller that calls, leaves and calls again
/// would have no limit.
pub fn in_flight() -> Option<InFlight> {
    IN_FLIGHT.try_with(Clone::clone).ok()
}

impl InFlight {
    pub(super) fn new(call: Arc<CallPermit>, message: MessagePermit) -> Self {
        Self { _call: call, _message: message }
    }

    /// Runs the handler of a call, which finds this as [`in_flight`].
    pub(super) async fn scope<F: Future>(self, handling: F) -> F::Output {
        IN_FLIGHT.scope(self, handling).await
    }
}
