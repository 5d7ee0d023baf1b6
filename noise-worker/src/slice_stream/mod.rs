//! One checked request answered: row after row, as data or into a region, the lease looked at before every piece.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use proto::{CoordinateRange, ElementType, Result, RowRange, ServiceError, chunk_of, pb};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::Instant,
};
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
    pub asked: Instant,
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

    /// Less than half of what was made: a reader who is slow to take it is not to keep all of that in memory, which
    /// nobody has counted.
    fn is_small(&self) -> bool {
        2 * self.values().len() < self.made.values().len()
    }
}

/// Room for one chunk.
type Room<'a> = mpsc::Permit<'a, Result<pb::Chunk>>;

/// A row was delivered, or won't be: also where the reader left in between.
struct Served<'a>(&'a Shard);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.served();
    }
}

impl Delivery {
    /// Chunks of the rows, in order of rows.
    pub async fn run(&self) -> Result<()> {
        let Slice { shard, rows, .. } = &self.slice;
        // On disk before a byte leaves: what is forgotten here could be released again elsewhere.
        let job = shard.job().clone();
        let branch = shard.grant().branch();
        self.leases.marks.clone().note(job, branch, self.slice.released.clone()).await?;
        let mut replay = Replay::default();
        for row in rows.as_range() {
            // The reader is gone: nobody is left to tell, or to make rows for.
            if self.out.is_closed() {
                return Ok(());
            }
            self.row(row, &mut replay).await?;
            metrics::counter!(metric::ROWS_SERVED).increment(1);
        }
        Ok(())
    }

    /// `None`: the reader is gone.
    async fn room(&self) -> Option<Room<'_>> {
        self.out.reserve().await.ok()
    }

    /// From the window, for as long as the row is there. Room comes first: with a row in hand nobody waits for a reader
    /// who wants little of it.
    async fn row(&self, row: u64, replay: &mut Replay) -> Result<()> {
        let Slice { shard, range, deadline, .. } = &self.slice;
        let mut left = *range;
        while left.start < left.end {
            let Some(room) = self.room().await else { return Ok(()) };
            // How the row came is told once.
            let span = if left == *range { row_span(shard.grant().shard, row) } else { Span::none() };
            let Some(made) = shard.row(row, *deadline).instrument(span.clone()).await? else {
                drop(room);
                return self.replay(row, left, replay).instrument(span).await;
            };
            drop(span);
            let _served = Served(shard);
            let piece = Piece { row, range: left, made: &made, origin: shard.grant().range.start };
            left.start = self.deliver(piece, room).await?;
        }
        Ok(())
    }

    /// A row that has left the window, drawn again piece by piece, for as long as its reader waits.
    async fn replay(&self, row: u64, mut left: CoordinateRange, replay: &mut Replay) -> Result<()> {
        let shard = &self.slice.shard;
        let recipe = shard.recipe().ok_or_else(|| shard.not_owner())?;
        Span::current().record("how", "replayed");
        let mut drawing = Duration::ZERO;
        while left.start < left.end {
            let Some(room) = self.room().await else { return Ok(()) };
            self.check_time(left)?;
            let end = (left.start + replay::piece_len(recipe)).min(left.end);
            let range = CoordinateRange { end, ..left };
            let began = Instant::now();
            let made = Row::new(replay.row(recipe, &self.leases.limits, row, range).await?);
            drawing += began.elapsed();
            left.start = self.deliver(Piece { row, range, made: &made, origin: range.start }, room).await?;
        }
        metrics::histogram!(metric::ROW_WAIT_SECONDS, "how" => "replayed").record(drawing);
        Ok(())
    }

    /// Looked at before every piece that is drawn again: whoever asked has given up by then, and may ask anew.
    fn check_time(&self, left: CoordinateRange) -> Result<()> {
        let Slice { shard, asked, deadline, .. } = &self.slice;
        if Instant::now() < *deadline {
            return Ok(());
        }
        let waited_ms = asked.elapsed().as_millis() as u64;
        Err(ServiceError::range_unavailable(shard.job(), vec![left], waited_ms))
    }

    /// The coordinate to go on from.
    async fn deliver(&self, piece: Piece<'_>, room: Room<'_>) -> Result<u64> {
        match &self.slice.destination {
            Some(destination) => self.place(piece, destination, room).await,
            None => self.send(piece, room).await,
        }
    }

    /// The row's own memory, cut into chunks; copies where that is a small part of it. To the piece's end, or as far as
    /// there is room at once where the row would be held for little.
    async fn send<'a>(&'a self, piece: Piece<'_>, mut room: Room<'a>) -> Result<u64> {
        let element = self.slice.element;
        let mut at = piece.values().start;
        let end = piece.values().end;
        loop {
            self.check_lease()?;
            let next = (at + self.chunk_bytes / element.bytes()).min(end);
            self.slice.shard.mark_released(piece.row);
            let values = encoded(piece.made, at..next, element);
            let data = if piece.is_small() { Bytes::copy_from_slice(&values) } else { values };
            let chunk = chunk_of(piece.row, piece.origin + at as u64, element, data);
            metrics::counter!(metric::BYTES_SERVED).increment(chunk.data.len() as u64);
            room.send(Ok(chunk));
            ledger::end_where_asked("delivery::chunk");
            at = next;
            if at == end {
                break;
            }
            room = match self.out.try_reserve() {
                Ok(room) => room,
                Err(TrySendError::Full(())) if piece.is_small() => break,
                Err(_) => match self.room().await {
                    Some(room) => room,
                    None => return Ok(piece.range.end),
                },
            };
        }
        Ok(piece.origin + at as u64)
    }

    /// Copies into the lent region, then says so.
    async fn place(&self, piece: Piece<'_>, destination: &Destination, room: Room<'_>) -> Result<u64> {
        self.check_lease()?;
        let at = destination.place(piece.row, piece.range)?;
        let element = self.slice.element;
        let mut writer = destination.region.clone().writer().await;
        let made = piece.made.clone();
        let values = piece.values();
        let shard = self.slice.shard.clone();
        let leases = self.leases.clone();
        let out = self.out.clone();
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
        room.send(Ok(chunk));
        Ok(piece.range.end)
    }

    /// Looked at before every piece: a lease can be lost in the middle of a row.
    fn check_lease(&self) -> Result<()> {
        if self.slice.shard.cancelled.is_cancelled() || !self.leases.valid() {
            Err(self.slice.shard.not_owner())
        } else {
            Ok(())
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

#[cfg(test)]
mod tests;
