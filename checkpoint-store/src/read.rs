//! Reading a shard's state back, and refusing one of which a single bit differs.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use proto::{CoordinateRange, PieceName, tiling::SHARD_ALIGNMENT as BLOCK};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{
    CheckpointError, CheckpointKey, CheckpointStore, Result, ShardCheckpoint, ShardHeader,
    sealing::Segments,
    shard_file::{self, ParsedHead, TAG_BYTES},
    store::{location, object_error},
};

/// Parts that are requested together.
const PARTS_UNDER_WAY: usize = 2;

impl CheckpointStore {
    /// Reads one piece and checks it: form, lengths, that it is the piece its name says, what `check` requires of its
    /// header (before the rest is read), the seal of every segment, and `expected`, the SHA-256 of the whole object.
    pub async fn read_shard(
        &self,
        object: &str,
        expected: &[u8; 32],
        key: &CheckpointKey,
        check: impl FnOnce(&ShardHeader) -> Result<(), String>,
    ) -> Result<ShardCheckpoint> {
        self.read(object, expected, key, None, check).await
    }

    /// Reads and checks one piece like [`Self::read_shard`], but keeps no more in memory than `wanted` needs:
    /// `state` has the state of the blocks that it touches, `window` its coordinates of each row. The header is the
    /// whole piece's, as it was stored. Error: `wanted` is not within the piece.
    pub async fn read_part(
        &self,
        object: &str,
        expected: &[u8; 32],
        key: &CheckpointKey,
        wanted: CoordinateRange,
        check: impl FnOnce(&ShardHeader) -> Result<(), String>,
    ) -> Result<ShardCheckpoint> {
        self.read(object, expected, key, Some(wanted), check).await
    }

    async fn read(
        &self,
        object: &str,
        expected: &[u8; 32],
        key: &CheckpointKey,
        wanted: Option<CoordinateRange>,
        check: impl FnOnce(&ShardHeader) -> Result<(), String>,
    ) -> Result<ShardCheckpoint> {
        let refused = |reason: String| CheckpointError::Unusable { object: object.to_owned(), reason };
        let name = PieceName::parse(object)?;
        let location = location(object)?;
        let size = self.store.head(&location).await.map_err(|error| object_error(object, error))?.size;
        if size == 0 {
            return Err(refused("it is empty".to_owned()));
        }
        let first = size.min((shard_file::PREFIX_BYTES + shard_file::MAX_HEADER_BYTES) as u64);
        let first =
            self.store.get_range(&location, 0..first).await.map_err(|error| object_error(object, error))?;
        let opened = shard_file::decode(&first, size).map_err(refused)?;
        if name.job.as_str() != opened.header.job || name.range != opened.header.range {
            return Err(refused(format!(
                "it holds job {}, range {}",
                opened.header.job, opened.header.range
            )));
        }
        check(&opened.header).map_err(refused)?;
        let wanted = wanted.unwrap_or(opened.header.range);
        let mut reading = ShardReader::new(&opened, wanted, &first, key).map_err(refused)?;
        let mut parts = self.parts(location, opened.payload_offset, size);
        while let Some(part) = parts.try_next().await.map_err(|error| object_error(object, error))? {
            // Opened on a blocking thread; meanwhile the next part is read.
            let taken = tokio::task::spawn_blocking(move || reading.take(&part).map(|()| reading));
            reading = taken.await.map_err(|error| refused(error.to_string()))?.map_err(refused)?;
        }
        let (state, window) = reading.finish(expected).map_err(refused)?;
        Ok(ShardCheckpoint { header: opened.header, state, window })
    }

    /// Streams the sealed payload in order.
    fn parts(
        &self,
        location: object_store::path::Path,
        start: u64,
        end: u64,
    ) -> stream::BoxStream<'static, object_store::Result<Bytes>> {
        let step = self.part_bytes;
        let store = Arc::clone(&self.store);
        stream::iter((start..end).step_by(step))
            .map(move |from| {
                let store = Arc::clone(&store);
                let location = location.clone();
                async move { store.get_range(&location, from..(from + step as u64).min(end)).await }
            })
            .buffered(PARTS_UNDER_WAY)
            .boxed()
    }
}

/// State and window while their bytes arrive.
struct ShardReader {
    state: RunSlice,
    /// The rows so far.
    window: Vec<RunSlice>,
    rows: usize,
    row_len: usize,
    /// The part of each row that is kept.
    row_part: Range<usize>,
    segments: Segments,
    /// The incomplete segment. It is opened in place, so that it holds plain values for a moment.
    sealed: Zeroizing<Vec<u8>>,
    sealed_bytes: usize,
    whole: Sha256,
}

impl ShardReader {
    fn new(
        opened: &ParsedHead,
        wanted: CoordinateRange,
        first: &[u8],
        key: &CheckpointKey,
    ) -> Result<Self, String> {
        let head = first.get(..opened.payload_offset as usize).ok_or("its header is cut off")?;
        let sealed_bytes = opened.seal.segment_bytes as usize + TAG_BYTES;
        let count = opened.seal.segments(opened.shape.payload_bytes);
        let (state_part, row_part) = parts_of(&opened.header, wanted)?;
        Ok(Self {
            state: RunSlice::new(opened.shape.state_len, state_part)?,
            window: Vec::new(),
            rows: opened.shape.rows,
            row_len: opened.shape.row_len,
            row_part,
            segments: Segments::new(key, &opened.seal.salt, head.to_vec(), count)?,
            sealed: Zeroizing::new(Vec::with_capacity(sealed_bytes)),
            sealed_bytes,
            whole: Sha256::new_with_prefix(head),
        })
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        self.whole.update(bytes);
        while !bytes.is_empty() {
            let missing = self.sealed_bytes - self.sealed.len();
            let (now, later) = bytes.split_at(bytes.len().min(missing));
            self.sealed.extend_from_slice(now);
            if self.sealed.len() == self.sealed_bytes {
                self.open_segment()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn open_segment(&mut self) -> Result<(), String> {
        let mut sealed = std::mem::take(&mut self.sealed);
        let plain = self.segments.open(&mut sealed)?;
        self.take_plain(plain)?;
        sealed.clear();
        self.sealed = sealed;
        Ok(())
    }

    fn take_plain(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = self.state.take(bytes);
        while !rest.is_empty() {
            if self.window.last().is_none_or(RunSlice::is_whole) {
                if self.window.len() == self.rows {
                    return Err("it grew while it was read".to_owned());
                }
                self.window.push(RunSlice::new(self.row_len, self.row_part.clone())?);
            }
            if let Some(row) = self.window.last_mut() {
                rest = row.take(rest);
            }
        }
        Ok(())
    }

    fn finish(mut self, expected: &[u8; 32]) -> Result<(Vec<f32>, Vec<Vec<f32>>), String> {
        // The last segment is complete when the object ends; one of full length was opened when it arrived.
        if !self.segments.is_done() {
            self.open_segment()?;
        }
        let has_rows = self.window.len() == self.rows && self.window.iter().all(RunSlice::is_whole);
        if !self.segments.is_done() || !self.sealed.is_empty() || !self.state.is_whole() || !has_rows {
            return Err("it shrank while it was read".to_owned());
        }
        let whole: [u8; 32] = self.whole.finalize().into();
        if whole != *expected {
            return Err(format!("its SHA-256 is {}, expected {}", hex::encode(whole), hex::encode(expected)));
        }
        Ok((self.state.values, self.window.into_iter().map(|row| row.values).collect()))
    }
}

/// Returns where the state and the coordinates of `wanted` lie in a piece's state and in each of its rows.
fn parts_of(header: &ShardHeader, wanted: CoordinateRange) -> Result<(Range<usize>, Range<usize>), String> {
    let of = header.range;
    if wanted.start >= wanted.end || !of.contains(&wanted) {
        return Err(format!("it holds {of}, wanted {wanted}"));
    }
    // Within the lengths of its shape, which this machine can address.
    let place = |block: u64| ((block - of.start / BLOCK) * header.block_state_len) as usize;
    let state = place(wanted.start / BLOCK)..place(wanted.end.div_ceil(BLOCK));
    Ok((state, (wanted.start - of.start) as usize..(wanted.end - of.start) as usize))
}

/// A run of values while its bytes arrive, of which a part is kept.
struct RunSlice {
    len: usize,
    part: Range<usize>,
    /// Values that have arrived.
    at: usize,
    values: Vec<f32>,
}

impl RunSlice {
    /// Reserves the memory. Missing memory is an error, not an abort.
    fn new(len: usize, part: Range<usize>) -> Result<Self, String> {
        let mut values = Vec::new();
        let reserved = values.try_reserve_exact(part.len());
        reserved.map_err(|_| format!("there is no memory for its {} values", part.len()))?;
        Ok(Self { len, part, at: 0, values })
    }

    fn is_whole(&self) -> bool {
        self.at == self.len
    }

    /// Takes the bytes that are still missing, of whole values, and returns what follows them.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, rest) = bytes.split_at(bytes.len().min((self.len - self.at) * 4));
        let end = self.at + now.len() / 4;
        let [from, to] = [self.part.start, self.part.end].map(|place| place.clamp(self.at, end) - self.at);
        shard_file::from_bytes(&now[from * 4..to * 4], &mut self.values);
        self.at = end;
        rest
    }
}

#[cfg(test)]
mod tests;
