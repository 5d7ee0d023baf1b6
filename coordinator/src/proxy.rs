//! Fetches through the coordinator, for clients that can't reach the workers.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use client::{FetchSource, Routing, SliceRequest, Tile, stream_chunks};
use futures::future::BoxFuture;
use node::admission::{InFlight, in_flight};
use proto::model::{Bind, Fetch};
use proto::{ReceivedChunk, ReleasedRows, Result, ServiceError, pb};
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};

use crate::coordinator::Coordinator;
use crate::quotas::Requester;

/// The longest deadline that a caller can set for a fetch.
const MAX_DEADLINE: Duration = Duration::from_secs(3600);

/// Chunks that have been checked, each complete.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<pb::Chunk>> + Send>>;

impl Coordinator {
    /// Binds the rows, then streams their chunks, checked, in the order in which they arrive from the workers.
    pub async fn fetch(self: &Arc<Self>, fetch: Fetch, requester: Requester) -> Result<ChunkStream> {
        let began = Instant::now();
        let Fetch { bind, range, element, deadline_ms } = fetch;
        // Before anything is bound, so that a wrong range or type uses up no rows.
        let routing = self.routing(&bind.job)?;
        routing.check_range(range)?;
        routing.element.check_request(element, &bind.job)?;
        let wait =
            deadline_ms.map_or(self.settings().fetch_deadline, Duration::from_millis).min(MAX_DEADLINE);
        let released = self.bind_detached(bind.clone(), requester.clone()).await?;
        let request = SliceRequest {
            job: bind.job.clone(),
            branch: bind.branch,
            tile: Tile { rows: bind.rows, range },
            released,
            began,
            deadline: began + wait,
            element,
            region: None,
        };
        let coordinator = Arc::downgrade(self);
        let source = Arc::new(LocalSource { coordinator, bind, requester, _call: in_flight() });
        let chunks = stream_chunks(self.connections().clone(), source, request);
        Ok(Box::pin(chunks.map(|chunk| chunk.map(ReceivedChunk::into_message))))
    }
}

/// This coordinator as the source of routing and grants, without a call to itself. The reference is weak, so that a
/// fetch that outlasts shutdown does not keep the ledger open.
struct LocalSource {
    coordinator: Weak<Coordinator>,
    bind: Bind,
    requester: Requester,
    /// Counts the call as under way until its last chunk has been sent.
    _call: Option<InFlight>,
}

impl LocalSource {
    fn coordinator(&self) -> Result<Arc<Coordinator>> {
        self.coordinator.upgrade().ok_or(ServiceError::Unavailable { what: "the coordinator".into() })
    }
}

impl FetchSource for LocalSource {
    fn routing(&self) -> BoxFuture<'_, Result<Routing>> {
        Box::pin(async { self.coordinator()?.routing(&self.bind.job) })
    }

    fn release(&self) -> BoxFuture<'_, Result<ReleasedRows>> {
        Box::pin(async { self.coordinator()?.bind_detached(self.bind.clone(), self.requester.clone()).await })
    }
}
