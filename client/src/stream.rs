//! The fetch itself: slices from all workers at once, and again what is missing, until all is there or time is up.

use std::sync::{Arc, Mutex};

use proto::{ElementType, JobId, ReceivedChunk, ReleaseToken, Result, ServiceError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, warn};

use crate::parts::cut;
use crate::slice::{Shared, fetch_slice};
use crate::{Assembly, Connections, Delays, Next, Part, Placement, Source, after};

/// Chunks of up to 4 MiB that wait for the receiver.
const CHUNKS_AHEAD: usize = 8;

/// Rows that are bound, and the part of them that is wanted.
#[derive(Clone, Debug)]
pub struct SliceRequest {
    pub job: JobId,
    pub branch: u64,
    pub part: Part,
    /// One for each row.
    pub tokens: Vec<ReleaseToken>,
    /// When this fetch began; errors say how long they waited.
    pub began: Instant,
    pub deadline: Instant,
    pub element: ElementType,
    /// Where the workers of this host write the rows.
    pub region: Option<Placement>,
}

/// Checked chunks in any order, each coordinate of each row once. The stream ends when all have come, or with one
/// error: `RangeUnavailable`, which names what is missing, once the deadline has passed.
///
/// Dropping the stream stops the fetch. Must be called inside a tokio runtime.
pub fn stream_chunks(
    connections: Connections,
    source: Arc<dyn Source>,
    request: SliceRequest,
) -> ReceiverStream<Result<ReceivedChunk>> {
    let (chunks, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let SliceRequest { job, branch, part, tokens, began, deadline, element, region } = request;
    let shared = Shared {
        connections,
        source,
        job,
        branch,
        first_row: part.rows.start,
        deadline,
        assembly: Mutex::new(Assembly::new(part)),
        element,
        region,
        chunks,
    };
    let fetch = Fetch {
        shared: Arc::new(shared),
        part,
        tokens: tokens.into(),
        began,
        pending: vec![part],
        slices: JoinSet::new(),
        delays: Delays::default(),
        is_rebinding: false,
        may_hurry: true,
        is_hurrying: false,
    };
    tokio::spawn(node::telemetry::trace_context::carry(fetch.run()));
    ReceiverStream::new(receiver)
}

struct Fetch {
    shared: Arc<Shared>,
    part: Part,
    tokens: Arc<[ReleaseToken]>,
    began: Instant,
    /// What has not arrived and no slice is under way for.
    pending: Vec<Part>,
    slices: JoinSet<(Part, Result<()>)>,
    delays: Delays,
    is_rebinding: bool,
    /// Leases that have moved on are looked up anew at once, but only one time: until something has arrived.
    may_hurry: bool,
    /// That time is now.
    is_hurrying: bool,
}

/// What is to do once a slice has ended.
enum After {
    Nothing,
    /// Its worker has handed the shard over: the routing says to whom.
    Moved,
    Failed,
}

impl Fetch {
    async fn run(mut self) {
        let chunks = self.shared.chunks.clone();
        let deadline = self.shared.deadline;
        let outcome = tokio::select! {
            biased;
            // Nobody waits for the rest.
            () = chunks.closed() => return,
            outcome = timeout_at(deadline, self.fetch_all()) => outcome,
        };
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => self.out_of_time(),
        };
        // No slice may add chunks behind the error.
        self.slices.shutdown().await;
        let _receiver_gone = chunks.send(Err(error)).await;
    }

    async fn fetch_all(&mut self) -> Result<()> {
        // At once: a timer, even one that is due, would cost a millisecond.
        self.ask_for_pending().await?;
        let mut retry_at = Instant::now() + self.delays.next_delay();
        while !(self.pending.is_empty() && self.slices.is_empty()) {
            tokio::select! {
                biased;
                Some(ended) = self.slices.join_next() => {
                    match self.slice_ended(ended.map_err(ServiceError::internal)?)? {
                        After::Nothing => {}
                        After::Moved => retry_at = Instant::now(),
                        After::Failed => retry_at = retry_at.max(Instant::now() + self.delays.next_delay()),
                    }
                }
                () = sleep_until(retry_at), if !self.pending.is_empty() => {
                    self.ask_for_pending().await?;
                    retry_at = Instant::now() + self.delays.next_delay();
                }
            }
        }
        if self.shared.assembly().is_complete() {
            return Ok(());
        }
        Err(ServiceError::internal("a fetch ended before all of its range had arrived"))
    }

    /// Whether, and how soon, what the slice was asked for must be asked again.
    fn slice_ended(&mut self, (part, outcome): (Part, Result<()>)) -> Result<After> {
        let gaps = self.shared.assembly().gaps(part);
        if gaps != [part] {
            self.delays.reset();
            self.may_hurry = true;
        }
        self.pending.extend(gaps);
        let Err(error) = outcome else { return Ok(After::Nothing) };
        let has_moved = matches!(error, ServiceError::NotOwner { .. } | ServiceError::Fenced { .. });
        self.go_on_after(error)?;
        self.is_hurrying |= has_moved && std::mem::take(&mut self.may_hurry);
        Ok(if has_moved && self.is_hurrying { After::Moved } else { After::Failed })
    }

    fn go_on_after(&mut self, error: ServiceError) -> Result<()> {
        match after(&error) {
            Next::Stop => return Err(error),
            Next::Retry => {}
            Next::Rebind => self.is_rebinding = true,
        }
        debug!(job = %self.shared.job, kind = error.kind(), %error, "fetching the rest again");
        Ok(())
    }

    async fn ask_for_pending(&mut self) -> Result<()> {
        self.is_hurrying = false;
        if let Err(error) = self.try_to_ask().await {
            self.go_on_after(error)?;
        }
        Ok(())
    }

    async fn try_to_ask(&mut self) -> Result<()> {
        if self.is_rebinding {
            self.tokens = self.shared.source.tokens().await?.into();
            self.is_rebinding = false;
        }
        let routing = self.shared.source.routing().await?;
        routing.check_range(self.part.range)?;
        let cut = cut(&self.pending, &routing);
        self.pending = cut.unserved;
        for (route, part) in cut.asked {
            let slice = fetch_slice(self.shared.clone(), route, part, self.tokens.clone());
            self.slices.spawn(node::telemetry::trace_context::carry(async move { (part, slice.await) }));
        }
        Ok(())
    }

    fn out_of_time(&self) -> ServiceError {
        let missing = self.shared.assembly().missing_ranges();
        let waited_ms = self.began.elapsed().as_millis() as u64;
        warn!(job = %self.shared.job, rows = %self.part.rows, waited_ms, "no worker served the whole range in time");
        ServiceError::range_unavailable(&self.shared.job, missing, waited_ms)
    }
}
