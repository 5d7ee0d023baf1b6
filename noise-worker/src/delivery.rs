//! One checked request answered: row after row, as data or into a region, the lease looked at before every piece.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use proto::{CoordinateRange, ElementType, Result, RowRange, ServiceError, chunk_of, pb};
use tokio::{sync::mpsc, time::Instant};
use tracing::{Instrument, Span};

use crate::{
    bf16,
    leases::Leases,
    marks::Released,
    metric_definitions as metric,
    regions::{Destination, Regions},
    replay::{self, Replay},
    row::Row,
    shard::Shard,
    spans::row_span,
};

/// A request whose every part has been checked.
pub struct Slice {
    pub shard: Arc<Shard>,
    pub rows: RowRange,
    /// The same rows with what they are bound to.
    pub released: Vec<Released>,
    pub range: CoordinateRange,
    pub element: ElementType,
    pub destination: Option<Destination>,
    pub deadline: Instant,
}

pub struct Delivery {
    pub slice: Slice,
    pub leases: Arc<Leases>,
    pub regions: Arc<Regions>,
    /// Of row data in one chunk.
    pub chunk_bytes: usize,
    pub out: mpsc::Sender<Result<pb::Chunk>>,
}

/// Coordinates of one row, and where their values lie in what was made.
#[derive(Clone, Copy)]
struct Piece<'a> {
    row: u64,
    range: CoordinateRange,
    made: &'a Row,
    /// Coordinate of the first value of `made`.
    origin: u64,
}

impl Piece<'_> {
    fn values(&self) -> Range<usize> {
        (self.range.start - self.origin) as usize..(self.range.end - self.origin) as usize
    }
}

impl Delivery {
    /// Chunks of the rows, in order of rows.
    pub async fn run(&self) -> Result<()> {
        let Slice { shard, rows, range, deadline, .. } = &self.slice;
        // On disk before a byte leaves: what is forgotten here could be released again elsewhere.
        let (job, branch) = (shard.job().clone(), shard.grant().branch());
        self.leases.marks.clone().note(job, branch, self.slice.released.clone()).await?;
        let mut replay = Replay::default();
        for row in rows.as_range() {
            let span = row_span(shard.grant().shard, row);
            match shard.row(row, *deadline).instrument(span.clone()).await? {
                Some(made) => {
                    drop(span);
                    let origin = shard.grant().range.start;
                    let delivered = self.deliver(Piece { row, range: *range, made: &made, origin }).await;
                    shard.served();
                    delivered?;
                }
                None => self.replay(row, &mut replay).instrument(span).await?,
            }
            metrics::counter!(metric::ROWS_SERVED).increment(1);
        }
        Ok(())
    }

    /// A row that has left the window, drawn again piece by piece.
    async fn replay(&self, row: u64, replay: &mut Replay) -> Result<()> {
        let Slice { shard, range, .. } = &self.slice;
        let recipe = shard.recipe().ok_or_else(|| shard.not_owner())?;
        Span::current().record("how", "replayed");
        let mut start = range.start;
        let mut drawing = Duration::ZERO;
        while start < range.end {
            let end = (start + replay::piece_len(recipe)).min(range.end);
            let range = CoordinateRange { start, end };
            let began = Instant::now();
            let made = Row::new(replay.row(recipe, &self.leases.limits, row, range).await?);
            drawing += began.elapsed();
            self.deliver(Piece { row, range, made: &made, origin: start }).await?;
            start = end;
        }
        metrics::histogram!(metric::ROW_WAIT_SECONDS, "how" => "replayed").record(drawing);
        Ok(())
    }

    async fn deliver(&self, piece: Piece<'_>) -> Result<()> {
        match &self.slice.destination {
            Some(destination) => self.place(piece, destination).await,
            None => self.send(piece).await,
        }
    }

    /// The row's own memory, cut into chunks.
    async fn send(&self, piece: Piece<'_>) -> Result<()> {
        let element = self.slice.element;
        let (mut at, end) = (piece.values().start, piece.values().end);
        while at < end {
            self.check_lease()?;
            let next = (at + self.chunk_bytes / element.bytes()).min(end);
            self.slice.shard.mark_released(piece.row);
            let chunk = chunk_of(
                piece.row,
                piece.origin + at as u64,
                element,
                encoded(piece.made, at..next, element),
            );
            metrics::counter!(metric::BYTES_SERVED).increment(chunk.data.len() as u64);
            // The reader is gone: nobody is left to tell.
            if self.out.send(Ok(chunk)).await.is_err() {
                return Ok(());
            }
            ledger::end_where_asked("delivery::chunk");
            at = next;
        }
        Ok(())
    }

    /// Copies into the lent region, then says so.
    async fn place(&self, piece: Piece<'_>, destination: &Destination) -> Result<()> {
        self.check_lease()?;
        let at = destination.place(piece.row, piece.range)?;
        let element = self.slice.element;
        let mut writer = destination.region.clone().writer().await;
        let (made, values) = (piece.made.clone(), piece.values());
        let (shard, leases, out) = (self.slice.shard.clone(), self.leases.clone(), self.out.clone());
        shard.mark_released(piece.row);
        let copied = self.regions.pool.run(move || {
            let may_go_on = || !shard.cancelled.is_cancelled() && leases.valid() && !out.is_closed();
            writer.copy(at, &encoded(&made, values, element), may_go_on)
        });
        if !copied.await.map_err(ServiceError::internal)?? {
            return Err(self.slice.shard.not_owner());
        }
        let placed = piece.range.len();
        metrics::counter!(metric::BYTES_PLACED).increment(placed * element.bytes() as u64);
        let chunk = pb::Chunk {
            row: piece.row,
            start: piece.range.start,
            placed,
            element_type: element.into(),
            ..pb::Chunk::default()
        };
        let _reader_gone = self.out.send(Ok(chunk)).await;
        Ok(())
    }

    /// Looked at before every piece: a lease can be lost in the middle of a row.
    fn check_lease(&self) -> Result<()> {
        match self.slice.shard.cancelled.is_cancelled() || !self.leases.valid() {
            true => Err(self.slice.shard.not_owner()),
            false => Ok(()),
        }
    }
}

/// Values as they are sent: f32 without a copy.
fn encoded(made: &Row, values: Range<usize>, element: ElementType) -> Bytes {
    match element {
        ElementType::F32 => made.bytes().slice(values.start * 4..values.end * 4),
        ElementType::Bf16 => bf16::bytes(&made.values()[values]),
    }
}
