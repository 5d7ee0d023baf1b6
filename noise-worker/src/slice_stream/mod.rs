//! Answers one checked request: row after row, as data or into a region. The lease is checked before every piece.

mod bf16;
mod holding;
#[cfg(test)]
mod tests;

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use proto::{CoordinateRange, ElementType, Result, RowRange, ServiceError, chunk_of, pb};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, timeout},
};
use tracing::{Instrument, Span};

use crate::{
    leases::Leases,
    metric_definitions as metric,
    regions::{Destination, Regions},
    release_log::ReleasedRow,
    replay::{self, Replay},
    shard::{
        Shard,
        readers::{ReaderHold, reader_is_stalled},
        row::Row,
    },
    spans::row_span,
};

/// A request of which every part has been checked.
pub struct Slice {
    pub shard: Arc<Shard>,
    pub rows: RowRange,
    /// The same rows with their commitments.
    pub released: Vec<ReleasedRow>,
    pub range: CoordinateRange,
    pub element: ElementType,
    pub destination: Option<Destination>,
    pub requested_at: Instant,
    pub deadline: Instant,
}

/// The answer to a slice, chunk by chunk.
pub struct SliceStream {
    pub slice: Slice,
    pub leases: Arc<Leases>,
    pub regions: Arc<Regions>,
    /// The maximum bytes of row data in one chunk.
    pub chunk_bytes: usize,
    pub out: mpsc::Sender<Result<pb::Chunk>>,
}

/// Coordinates of one row, and the position of their values in the row or the part that holds them.
struct Piece<'a> {
    row: u64,
    range: CoordinateRange,
    source: &'a Row,
    /// Coordinate of the first value of `source`.
    origin: u64,
    /// The source's memory, held for the reader. Without it the piece is copied.
    hold: Option<Arc<ReaderHold>>,
}

impl Piece<'_> {
    fn values(&self) -> Range<usize> {
        (self.range.start - self.origin) as usize..(self.range.end - self.origin) as usize
    }
}

/// The right to send one chunk.
type Room<'a> = mpsc::Permit<'a, Result<pb::Chunk>>;

/// Resumes generation when it is dropped: the row is delivered, or is abandoned because the reader left.
struct ResumeGeneration<'a>(&'a Shard);

impl Drop for ResumeGeneration<'_> {
    fn drop(&mut self) {
        self.0.row_done();
    }
}

impl SliceStream {
    /// Sends the chunks of the rows, in order of rows. Ends early where the reader leaves.
    pub async fn run(&self) -> Result<()> {
        let Slice { shard, rows, .. } = &self.slice;
        // On disk before a byte leaves: a row that this log forgets could be released again elsewhere.
        let job = shard.grant().identity();
        let branch = shard.grant().branch();
        self.leases.release_log.clone().record(job, branch, self.slice.released.clone()).await?;
        let mut replay = Replay::default();
        for row in rows.as_range() {
            // The reader has left: no more rows are needed.
            if self.out.is_closed() {
                return Ok(());
            }
            self.row(row, &mut replay).await?;
            metrics::counter!(metric::ROWS_SERVED).increment(1);
        }
        Ok(())
    }

    /// Waits for room for a chunk; `None` where the reader has left. Fails where it takes nothing for too long.
    async fn room(&self) -> Result<Option<Room<'_>>> {
        let limit = self.leases.limits.reader_timeout;
        let room = timeout(limit, self.out.reserve()).await;
        room.map(Result::ok).map_err(|_| reader_is_stalled(limit))
    }

    /// Delivers a row from the window, as long as it is there. Waits for room before it looks the row up: a row is not kept
    /// for a slow reader of a small part.
    async fn row(&self, row: u64, replay: &mut Replay) -> Result<()> {
        let Slice { shard, range, deadline, .. } = &self.slice;
        let mut left = *range;
        while left.start < left.end {
            let Some(room) = self.room().await? else { return Ok(()) };
            // The span records once how the row was obtained.
            let span = if left == *range { row_span(shard.grant().shard, row) } else { Span::none() };
            let Some(source) = shard.row(row, *deadline).instrument(span.clone()).await? else {
                drop(room);
                return self.replay(row, left, replay).instrument(span).await;
            };
            drop(span);
            let _served = ResumeGeneration(shard);
            let origin = shard.grant().range.start;
            let hold = self.hold_row(row, left);
            let piece = Piece { row, range: left, source: &source, origin, hold };
            left.start = self.deliver(piece, room).await?;
        }
        Ok(())
    }

    /// Replays a row that has left the window, piece by piece, as long as its reader waits.
    async fn replay(&self, row: u64, mut left: CoordinateRange, replay: &mut Replay) -> Result<()> {
        let shard = &self.slice.shard;
        let spec = shard.spec().ok_or_else(|| shard.not_owner())?;
        Span::current().record("how", "replayed");
        let mut drawing = Duration::ZERO;
        while left.start < left.end {
            let Some(room) = self.room().await? else { return Ok(()) };
            self.check_time(left)?;
            let (hold, len) = self.hold_replay(replay::piece_len(spec));
            let end = (left.start + len).min(left.end);
            let range = CoordinateRange { end, ..left };
            let began = Instant::now();
            let source = Row::new(replay.row(spec, &self.leases.limits, row, range).await?);
            drawing += began.elapsed();
            let piece = Piece { row, range, source: &source, origin: range.start, hold };
            left.start = self.deliver(piece, room).await?;
        }
        metrics::histogram!(metric::ROW_WAIT_SECONDS, "how" => "replayed").record(drawing);
        Ok(())
    }

    /// Checks the deadline, before every piece that is replayed: after it the caller has given up and may request again.
    fn check_time(&self, left: CoordinateRange) -> Result<()> {
        let Slice { shard, requested_at, deadline, .. } = &self.slice;
        if Instant::now() < *deadline {
            return Ok(());
        }
        let waited_ms = requested_at.elapsed().as_millis() as u64;
        Err(ServiceError::range_unavailable(shard.job(), vec![left], waited_ms))
    }

    /// Checks that the shard's rows are handed out as the request's type. While a shard is restored, the type of its rows is
    /// not known here: then the request passed.
    fn check_element(&self) -> Result<()> {
        let shard = &self.slice.shard;
        let spec = shard.spec().ok_or_else(|| shard.not_owner())?;
        spec.element().check_request(self.slice.element, shard.job())
    }

    /// Delivers a piece. Returns the coordinate to continue from.
    async fn deliver(&self, piece: Piece<'_>, room: Room<'_>) -> Result<u64> {
        self.check_element()?;
        match &self.slice.destination {
            Some(destination) => self.place(piece, destination, room).await,
            None => self.send(piece, room).await,
        }
    }

    /// Sends a piece as chunks of the row's own memory, or as copies where the piece is small or readers hold enough. Returns
    /// the coordinate to continue from: the end, or for a copied piece the first for which there is no room at once.
    async fn send<'a>(&'a self, piece: Piece<'_>, mut room: Room<'a>) -> Result<u64> {
        let element = self.slice.element;
        let mut at = piece.values().start;
        let end = piece.values().end;
        loop {
            self.check_lease()?;
            let (chunk_hold, bytes) = match &piece.hold {
                Some(hold) => (Some(hold.clone()), self.chunk_bytes),
                None => self.hold_copy(),
            };
            let next = (at + bytes / element.bytes()).min(end);
            self.slice.shard.mark_released(piece.row);
            let values = encoded(piece.source, at..next, element);
            let data = if piece.hold.is_none() { Bytes::copy_from_slice(&values) } else { values };
            let data = match chunk_hold {
                Some(hold) => hold.keep(data),
                None => data,
            };
            let chunk = chunk_of(piece.row, piece.origin + at as u64, element, data);
            metrics::counter!(metric::BYTES_SERVED).increment(chunk.data.len() as u64);
            room.send(Ok(chunk));
            durable_io::crash_point("delivery::chunk");
            at = next;
            if at == end {
                break;
            }
            room = match self.out.try_reserve() {
                Ok(room) => room,
                Err(TrySendError::Full(())) if piece.hold.is_none() => break,
                Err(_) => match self.room().await? {
                    Some(room) => room,
                    None => return Ok(piece.range.end),
                },
            };
        }
        Ok(piece.origin + at as u64)
    }

    /// Copies a piece into the lent region, then reports it.
    async fn place(&self, piece: Piece<'_>, destination: &Destination, room: Room<'_>) -> Result<u64> {
        self.check_lease()?;
        let at = destination.offset(piece.row, piece.range)?;
        let element = self.slice.element;
        let mut writer = destination.region.clone().writer().await;
        let source = piece.source.clone();
        let values = piece.values();
        let shard = self.slice.shard.clone();
        let leases = self.leases.clone();
        let out = self.out.clone();
        shard.mark_released(piece.row);
        let copied = self.regions.pool.run(move || {
            let may_go_on = || !shard.cancelled.is_cancelled() && leases.valid() && !out.is_closed();
            writer.copy(at, &encoded(&source, values, element), may_go_on)
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
        room.send(Ok(chunk));
        Ok(piece.range.end)
    }

    /// Checks the lease, before every piece: it can be lost in the middle of a row.
    fn check_lease(&self) -> Result<()> {
        self.leases.limits.row_check.ensure_sound()?;
        if self.slice.shard.cancelled.is_cancelled() || !self.leases.valid() {
            Err(self.slice.shard.not_owner())
        } else {
            Ok(())
        }
    }
}

/// Returns values as they are sent, all but `bf16` without a copy. The type is one that the rows are handed out as.
fn encoded(source: &Row, values: Range<usize>, element: ElementType) -> Bytes {
    match element {
        ElementType::F32 | ElementType::I32 => source.bytes().slice(values.start * 4..values.end * 4),
        ElementType::Bf16 => bf16::bytes(&source.values()[values]),
    }
}
