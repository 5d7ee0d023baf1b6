//! Fetching through the coordinator, for clients that can't reach the workers. It moves noise and can't make it.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use client::{FetchSource, Routing, SliceRequest, Tile, stream_chunks};
use futures::future::BoxFuture;
use node::admission::{InFlight, in_flight};
use proto::model::{Bind, Fetch};
use proto::{ReceivedChunk, ReleaseToken, Result, ServiceError, pb};
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};

use crate::coordinator::Coordinator;

/// A caller can't hold a fetch for longer.
const LONGEST_DEADLINE: Duration = Duration::from_secs(3600);

/// Checked chunks, each in one piece.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<pb::Chunk>> + Send>>;

impl Coordinator {
    /// Binds the rows, then streams their checked chunks in the order in which they arrive from the workers.
    pub async fn fetch(self: &Arc<Self>, fetch: Fetch) -> Result<ChunkStream> {
        let began = Instant::now();
        let Fetch { bind, range, element, deadline_ms } = fetch;
        // Before anything is bound: a mistaken range must not use up rows.
        self.routing(&bind.job)?.check_range(range)?;
        let wait =
            deadline_ms.map_or(self.settings.fetch_deadline, Duration::from_millis).min(LONGEST_DEADLINE);
        let tokens = self.bind_to_its_end(bind.clone()).await?;
        let request = SliceRequest {
            job: bind.job.clone(),
            branch: bind.branch,
            tile: Tile { rows: bind.rows, range },
            tokens,
            began,
            deadline: began + wait,
            element,
            region: None,
        };
        let source = Arc::new(OwnSource { coordinator: Arc::downgrade(self), bind, _held: in_flight() });
        let chunks = stream_chunks(self.connections.clone(), source, request);
        Ok(Box::pin(chunks.map(|chunk| chunk.map(ReceivedChunk::into_message))))
    }
}

/// This coordinator's own answers, without a call to itself. Weak: a fetch that outlasts shutdown must not keep the
/// ledger open.
struct OwnSource {
    coordinator: Weak<Coordinator>,
    bind: Bind,
    /// The request is kept for as long as its chunks come.
    _held: Option<InFlight>,
}

impl OwnSource {
    fn coordinator(&self) -> Result<Arc<Coordinator>> {
        self.coordinator.upgrade().ok_or(ServiceError::Unavailable { what: "the coordinator".into() })
    }
}

impl FetchSource for OwnSource {
    fn routing(&self) -> BoxFuture<'_, Result<Routing>> {
        Box::pin(async { self.coordinator()?.routing(&self.bind.job) })
    }

    fn tokens(&self) -> BoxFuture<'_, Result<Vec<ReleaseToken>>> {
        Box::pin(async { self.coordinator()?.bind_to_its_end(self.bind.clone()).await })
    }
}
